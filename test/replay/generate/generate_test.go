package generate_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/generate"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/logs"
)

// play runs a generated history through Berth and returns its ops and the printed decisions.
func play(t *testing.T, g *generate.Generator) (ops []log.Op, lines string) {
	t.Helper()
	scheduler, err := run.OpenBerth(t.Context(), g.Config())
	if err != nil {
		t.Fatal(err)
	}
	cluster := run.NewCluster(scheduler)
	var out bytes.Buffer
	for {
		op, ok := g.Next()
		if !ok {
			return ops, out.String()
		}
		ops = append(ops, op)
		outcome, err := cluster.Do(op)
		if err != nil {
			t.Fatalf("op %d is impossible: %v", len(ops), err)
		}
		if outcome == nil {
			continue
		}
		g.Observe(outcome)
		line, err := outcome.Line()
		if err != nil {
			t.Fatal(err)
		}
		out.Write(line)
	}
}

func TestASeedGivesOneHistory(t *testing.T) {
	for kind, made := range map[string]func(uint64, int) *generate.Generator{"common": generate.New, "preempting": generate.NewPreempting, "with devices": generate.NewWithDevices} {
		for seed := range uint64(5) {
			ops, lines := play(t, made(seed, 60))
			again, linesAgain := play(t, made(seed, 60))
			if diff := cmp.Diff(ops, again); diff != "" {
				t.Errorf("%s, seed %d: two histories (-first,+second):\n%s", kind, seed, diff)
			}
			if diff := cmp.Diff(lines, linesAgain); diff != "" {
				t.Errorf("%s, seed %d: different decisions (-first,+second):\n%s", kind, seed, diff)
			}
		}
	}
}

// A saved case must contain the history that was found.
func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	for _, g := range []*generate.Generator{generate.New(7, 60), generate.NewPreempting(7, 60), generate.NewWithDevices(7, 60)} {
		ops, _ := play(t, g)
		ops = loggable(ops)
		var file bytes.Buffer
		if err := log.WriteAll(&file, ops); err != nil {
			t.Fatal(err)
		}
		read, err := logs.ReadAll(&file)
		if err != nil {
			t.Fatal(err)
		}
		ignored := cmp.Options{cmpopts.IgnoreFields(log.Op{}, "Line"), cmpopts.IgnoreTypes(metav1.TypeMeta{}), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(ops, read, ignored); diff != "" {
			t.Errorf("the history changed in its file (-generated,+read):\n%s", diff)
		}
	}
}

// loggable leaves out attempts of pods that have a node, which a log cannot contain.
func loggable(ops []log.Op) []log.Op {
	var kept []log.Op
	for _, op := range ops {
		if pod, isPod := op.Object.(*v1.Pod); isPod && op.Kind == log.Schedule && pod.Spec.NodeName != "" {
			continue
		}
		kept = append(kept, op)
	}
	return kept
}
