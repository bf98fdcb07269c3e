package sandbox

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// assignedPod is the n-th pod in the order of assignment.
func assignedPod(name, node string, n int) *fixture.PodBuilder {
	return podOfProfile(name).On(node).Mutate(func(pod *v1.Pod) {
		pod.Status.Conditions = []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(1000+n), 0),
		}}
	})
}

func TestWhichPodsAreEvaluated(t *testing.T) {
	for name, c := range map[string]struct {
		pods []metav1.Object
		want []string
	}{
		"no pods": {want: []string{}},
		"running pods come first, the newest of them before the others": {
			pods: []metav1.Object{podOfProfile("waits").Obj(), assignedPod("old", "n", 1).Obj(), assignedPod("new", "n", 3).Obj(), assignedPod("middle", "n", 2).Obj()},
			want: []string{"new", "middle", "old", "waits"},
		},
		"pending pods come in the order of the queue": {
			pods: []metav1.Object{podOfProfile("second").CreationOrder(1).Obj(), podOfProfile("third").CreationOrder(2).Obj(), podOfProfile("first").CreationOrder(3).Priority(7).Obj()},
			want: []string{"first", "second", "third"},
		},
		"pods of other profiles are left out": {
			pods: []metav1.Object{fixture.Pod("theirs").SchedulerName("q").Obj(), fixture.Pod("runs").SchedulerName("q").On("n").Obj()}, want: []string{},
		},
		"terminating pods are left out": {
			pods: []metav1.Object{podOfProfile("waits").Terminating().Obj(), podOfProfile("runs").On("n").Terminating().Obj()}, want: []string{},
		},
		"pods that cannot be scheduled are left out": {
			pods: []metav1.Object{podOfProfile("gated").SchedulingGate("example.com/quota").Obj(), podOfProfile("odd").Label("unsupported", "spec.field").Obj()}, want: []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, podNames(newSource(c.pods...).mustRead(t).Pods())); diff != "" {
				t.Errorf("evaluated pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManyPodsAreSampled(t *testing.T) {
	var all []metav1.Object
	for i := range 3 * maxPendingPods {
		all = append(all, podOfProfile(fmt.Sprint("waits-", i)).CreationOrder(i).Obj())
	}
	for i := range 3 * maxAssignedPods {
		all = append(all, assignedPod(fmt.Sprint("runs-", i), "n", i).Obj())
	}
	got := podNames(newSource(all...).mustRead(t).Pods())
	if len(got) != maxAssignedPods+maxPendingPods {
		t.Fatalf("%d pods are evaluated, want %d", len(got), maxAssignedPods+maxPendingPods)
	}
	if got[0] != "runs-149" || got[maxAssignedPods-1] != "runs-100" {
		t.Errorf("running pods from %s to %s, want the newest", got[0], got[maxAssignedPods-1])
	}
	waiting := got[maxAssignedPods:]
	if waiting[0] != "waits-0" || waiting[1] != "waits-3" || !slices.Contains(waiting, "waits-597") {
		t.Errorf("pending pods %v, want a sample of the whole queue", waiting)
	}
}

func TestASandboxHoldsTheClusterState(t *testing.T) {
	s := newSource(
		fixture.Node("b").Obj(), fixture.Node("a").Obj(), podOfProfile("runs").On("a").Obj(),
		podOfProfile("assumed").Obj(), podOfProfile("waits").Obj(), podOfProfile("nominated").Obj(),
	)
	assumed, _ := framework.NewPodInfo(podOfProfile("assumed").Obj())
	if err := s.Cache.AssumePod(assumed, "b"); err != nil {
		t.Fatal(err)
	}
	s.nominate(t, podOfProfile("nominated").Obj(), "b")
	state := s.mustRead(t)
	want := []string{"a:[runs]", "b:[assumed (nominated)]"}
	if diff := cmp.Diff(want, contents(state.NewCluster())); diff != "" {
		t.Errorf("the sandbox (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"runs", "nominated", "waits"}, podNames(state.Pods())); diff != "" {
		t.Errorf("evaluated pods (-want +got):\n%s", diff)
	}
	placed, counted := s.Cache.Sizes()
	if placed != 1 || counted != 1 || s.Cache.Nominations() != 1 || s.Cache.UpdateSnapshot().Len() != 0 {
		t.Error("reading the state changed the live cache")
	}
}
