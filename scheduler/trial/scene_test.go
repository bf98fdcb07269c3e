package trial

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// placedOn is a pod that got its node as the n-th.
func placedOn(name, node string, n int) *fixture.PodBuilder {
	return ours(name).On(node).Mutate(func(pod *v1.Pod) {
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(1000+n), 0),
		}}
	})
}

func TestWhoIsAskedAbout(t *testing.T) {
	for sentence, c := range map[string]struct {
		pods []metav1.Object
		want []string
	}{
		"nobody, where there is nobody": {want: []string{}},
		"those that run come first, the newest of them before the others": {
			pods: []metav1.Object{ours("waits").Obj(), placedOn("old", "n", 1).Obj(), placedOn("new", "n", 3).Obj(), placedOn("middle", "n", 2).Obj()},
			want: []string{"new", "middle", "old", "waits"},
		},
		"those that wait come as they would have their turn": {
			pods: []metav1.Object{ours("second").Order(1).Obj(), ours("third").Order(2).Obj(), ours("first").Order(3).Priority(7).Obj()},
			want: []string{"first", "second", "third"},
		},
		"the pods of others are not": {
			pods: []metav1.Object{fixture.Pod("theirs").Scheduler("q").Obj(), fixture.Pod("runs").Scheduler("q").On("n").Obj()}, want: []string{},
		},
		"who goes is not": {
			pods: []metav1.Object{ours("waits").Terminating().Obj(), ours("runs").On("n").Terminating().Obj()}, want: []string{},
		},
		"who could not be tried is not": {
			pods: []metav1.Object{ours("gated").Gate("example.com/quota").Obj(), ours("odd").Label("unsupported", "spec.field").Obj()}, want: []string{},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(source(c.pods...).take(t).Pods())); diff != "" {
				t.Errorf("asked about (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACrowdIsSampled(t *testing.T) {
	var all []metav1.Object
	for i := range 3 * mostWaiting {
		all = append(all, ours(fmt.Sprint("waits-", i)).Order(i).Obj())
	}
	for i := range 3 * mostRecent {
		all = append(all, placedOn(fmt.Sprint("runs-", i), "n", i).Obj())
	}
	got := names(source(all...).take(t).Pods())
	if len(got) != mostRecent+mostWaiting {
		t.Fatalf("%d pods are asked about, want %d", len(got), mostRecent+mostWaiting)
	}
	if got[0] != "runs-149" || got[mostRecent-1] != "runs-100" {
		t.Errorf("of those that run from %s to %s, want the newest", got[0], got[mostRecent-1])
	}
	waiting := got[mostRecent:]
	if waiting[0] != "waits-0" || waiting[1] != "waits-3" || !slices.Contains(waiting, "waits-597") {
		t.Errorf("of those that wait %v, want some from all over the line", waiting)
	}
}

func TestATownIsTheClusterAsItIs(t *testing.T) {
	s := source(
		fixture.Node("b").Obj(), fixture.Node("a").Obj(), ours("runs").On("a").Obj(),
		ours("assumed").Obj(), ours("waits").Obj(), ours("promised").Obj(),
	)
	assumed, _ := framework.NewPodInfo(ours("assumed").Obj())
	if err := s.Live.Assume(assumed, "b"); err != nil {
		t.Fatal(err)
	}
	s.promise(t, ours("promised").Obj(), "b")
	scene := s.take(t)
	want := []string{"a:[runs]", "b:[assumed (promised)]"}
	if diff := cmp.Diff(want, content(scene.Town())); diff != "" {
		t.Errorf("the town (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"runs", "promised", "waits"}, names(scene.Pods())); diff != "" {
		t.Errorf("asked about (-want +got):\n%s", diff)
	}
	placed, counted := s.Live.Sizes()
	if placed != 1 || counted != 1 || s.Live.Nominations() != 1 || s.Live.Refresh().Len() != 0 {
		t.Error("taking a scene changed the live cache")
	}
}
