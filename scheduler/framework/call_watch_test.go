package framework

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// hangingFilter is an out-of-tree Filter plugin that hangs until unblocked is closed.
type hangingFilter struct {
	unblocked chan struct{}
	calls     int
}

func (*hangingFilter) Name() string { return "Odd" }

func (p *hangingFilter) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	p.calls++
	<-p.unblocked
	return nil
}

// An abandoned attempt uses objects that the loop changes: it must end by the first error.
func TestAnAbandonedAttemptCallsNoPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plugin := &hangingFilter{unblocked: make(chan struct{})}
		f := &Framework{
			Host: Host{Clock: clock.RealClock{}}, outOfTree: sets.New("Odd"), filter: []CountedFilter{{plugin, uncounted}},
		}
		watch, state := NewCallWatch(Runtime{f.Clock, Goroutine, Block}), NewCycleState()
		state.SetCallWatch(watch)
		var statuses []*fwk.Status
		watch.Go(func() {
			for range 2 {
				statuses = append(statuses, f.RunFilterPlugins(t.Context(), state, &v1.Pod{}, nil))
			}
		})
		abandoned := watch.Await()
		if want := (Call{"Odd", "Filter"}); abandoned == nil || abandoned.Call != want || abandoned.StillRunning {
			t.Fatalf("abandoned %v, want %v", abandoned, want)
		}
		ended := false
		watch.WhenEnded(func() { ended = true })
		close(plugin.unblocked)
		synctest.Wait()
		var late *CallTimeoutError
		for _, status := range statuses {
			if !errors.As(status.AsError(), &late) || status.Plugin() != "Odd" {
				t.Errorf("status %v, want the plugin's time-out", status)
			}
		}
		if len(statuses) != 2 || plugin.calls != 1 || !ended || CheckAbandoned(state) == nil {
			t.Errorf("%d statuses, %d calls, ended %v, %v", len(statuses), plugin.calls, ended, CheckAbandoned(state))
		}
	})
}
