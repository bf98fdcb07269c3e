package framework

import (
	"testing"

	"k8s.io/utils/clock"
)

func TestATrialRecordsTheLastCall(t *testing.T) {
	trial := &Trial{}
	f := &Framework{Host: Host{Clock: clock.RealClock{}}, trial: trial}
	if !f.OnTrial() || trial.LastCall() != (Call{}) {
		t.Errorf("on trial: %v, after %v", f.OnTrial(), trial.LastCall())
	}
	for _, call := range []Call{{"A", "PreFilter"}, {"A", "Filter"}, {"B", "Filter"}, {"B", "Filter"}} {
		f.trial.recordCall(call.Plugin, call.Point)
		if trial.LastCall() != call {
			t.Errorf("last is %v, want %v", trial.LastCall(), call)
		}
	}
	trial.Clear()
	if trial.LastCall() != (Call{}) {
		t.Errorf("last is %v after Clear", trial.LastCall())
	}
}

func TestWithoutATrialNoCallIsRecorded(t *testing.T) {
	f := &Framework{}
	if n := testing.AllocsPerRun(100, func() { f.trial.recordCall("A", "Filter") }); n != 0 || f.OnTrial() {
		t.Errorf("%v allocations, on trial: %v", n, f.OnTrial())
	}
}
