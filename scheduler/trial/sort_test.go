package trial

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/probe"
)

func TestQueueSortIsEvaluated(t *testing.T) {
	take := func(t *testing.T) (*ClusterState, *Sandbox, *framework.Trial, *probe.Plugin) {
		scene := newSource(fixture.Node("n").Obj(), podOfProfile("first").CreationOrder(1).Obj(), podOfProfile("second").CreationOrder(2).Obj()).mustRead(t)
		return scene, scene.NewSandbox(), &framework.Trial{}, newProbe("A")
	}
	t.Run("one that panics is at fault", func(t *testing.T) {
		scene, town, last, a := take(t)
		a.Statuses["Less"] = probe.Panic
		answers, err := town.Evaluate(t.Context(), realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
		want := []string{"fits", `fault: plugin "A" panicked in Less: the probe panics`}
		if diff := cmp.Diff(want, resultTexts(answers)); diff != "" || err != nil {
			t.Errorf("%v; answers (-want +got):\n%s", err, diff)
		}
	})
	t.Run("one that hangs has a name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			scene, town, last, a := take(t)
			release := make(chan struct{})
			a.Statuses["Less"] = func() *fwk.Status { <-release; return nil }
			_, err := town.Evaluate(t.Context(), realRuntime, newCandidate(t, town, last, a), last, scene.Pods())
			var late *LateError
			if !errors.As(err, &late) || late.Call != (framework.Call{Plugin: "A", Point: "Less"}) || late.Pod.Name != "second" {
				t.Fatalf("%v, want that A did not come back from Less for the second pod", err)
			}
			close(release)
			<-late.Returned
		})
	})
}
