package framework

import (
	"testing"

	"k8s.io/utils/clock"
)

func TestATrialKnowsWhomItAsks(t *testing.T) {
	trial := &Trial{}
	f := &Framework{Host: Host{Clock: clock.RealClock{}}, trial: trial}
	if !f.OnTrial() || trial.Last() != (Call{}) {
		t.Errorf("on trial: %v, after %v", f.OnTrial(), trial.Last())
	}
	for _, call := range []Call{{"A", "PreFilter"}, {"A", "Filter"}, {"B", "Filter"}, {"B", "Filter"}} {
		f.trial.calls(call.Plugin, call.Point)
		if trial.Last() != call {
			t.Errorf("last is %v, want %v", trial.Last(), call)
		}
	}
	trial.Clear()
	if trial.Last() != (Call{}) {
		t.Errorf("last is %v after Clear", trial.Last())
	}
}

func TestWithoutATrialNobodyIsNoted(t *testing.T) {
	f := &Framework{}
	if n := testing.AllocsPerRun(100, func() { f.trial.calls("A", "Filter") }); n != 0 || f.OnTrial() {
		t.Errorf("%v allocations, on trial: %v", n, f.OnTrial())
	}
}
