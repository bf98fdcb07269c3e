package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// runDemo runs the demo and returns what it printed.
func runDemo(t *testing.T, set settings) (string, error) {
	var out strings.Builder
	set.out = &out
	err := run(t.Context(), set)
	return out.String(), err
}

func TestTheDemoRunsToTheEnd(t *testing.T) {
	out, err := runDemo(t, settings{})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	last := fmt.Sprintf("demo: %d/%d ", len(steps), len(steps))
	if !strings.Contains(out, last) {
		t.Errorf("the output has no %q:\n%s", last, out)
	}
}

func TestTheDemoFailsWhenTheManagerIsKilledHalfWay(t *testing.T) {
	const after = "200 pods are spread"
	if !slices.ContainsFunc(steps, func(s step) bool { return s.title == after }) {
		t.Fatalf("the demo has no step %q", after)
	}
	out, err := runDemo(t, settings{killManagerAfter: after})
	if err == nil {
		t.Fatalf("the demo passed without a manager:\n%s", out)
	}
	if !strings.Contains(err.Error(), "manager exited (signal: killed)") {
		t.Errorf("the demo failed for another reason: %v\n%s", err, out)
	}
}

func TestAStepThatTakesTooLongSaysSo(t *testing.T) {
	s := &demo{}
	late := step{"wait for ever", time.Nanosecond, func(_ *demo, ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	if err := s.runStep(t.Context(), late); err == nil || err.Error() != "not done within 1ns" {
		t.Errorf("got %v, want: not done within 1ns", err)
	}
}
