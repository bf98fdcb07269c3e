package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/support/fakecluster"
)

// withPriority gives pods a priority.
func withPriority(priority int32, pods []runtime.Object) []runtime.Object {
	for _, pod := range pods {
		pod.(*v1.Pod).Spec.Priority = &priority
	}
	return pods
}

// lowPods returns bound pods with 4 CPUs and priority 1, one on each of the named nodes.
func lowPods(nodes ...string) (pods []runtime.Object) {
	for i, node := range nodes {
		pods = append(pods, podWithCPUs(fmt.Sprint("low-", i), 4, 1).On(node).StartTime(i+1).Obj())
	}
	return pods
}

// wholeGroup returns a PodGroup that is disrupted as a whole, and its pods of priority 1 on the
// named nodes.
func wholeGroup(nodes ...string) []runtime.Object {
	priority := int32(1)
	group, pods := nativeGang("whole", len(nodes), len(nodes))
	group.Spec.Priority, group.Spec.DisruptionMode = &priority, &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	for i, node := range nodes {
		pods[i].(*v1.Pod).Spec.NodeName = node
	}
	return append(withPriority(1, pods), group)
}

func (env *testEnv) deletions() []string {
	return slices.DeleteFunc(env.bindsAndDeletes(), func(call string) bool { return !strings.HasPrefix(call, "delete") })
}

func TestAGangGetsTheResourcesOfItsVictims(t *testing.T) {
	for name, test := range map[string]struct {
		running []runtime.Object
		gang    []runtime.Object
		deleted []string
		bound   string
	}{
		"on the node of one of its pods, the pod that runs longest stays": {lowPods("n0", "n0", "n1", "n1"), gang("a", 3, 3), []string{"delete low-0", "delete low-1", "delete low-3"}, "a 3, b 0"},
		"a node that is free is taken first":                              {lowPods("n1", "n1", "n1"), gang("a", 2, 2), nil, "a 2, b 0"},
		"pods beyond the minimum preempt, too":                            {lowPods("n0", "n0", "n1"), gang("a", 2, 1), []string{"delete low-1"}, "a 2, b 0"},
		"a group stays rather than a single pod":                          {append(wholeGroup("n0", "n1"), lowPods("n0", "n1")...), gang("a", 1, 1), []string{"delete low-0"}, "a 1, b 0"},
		"a group is evicted as a whole": {append(wholeGroup("n0", "n1"), lowPods("n0", "n1")...), gang("a", 3, 3),
			[]string{"delete low-0", "delete whole-0", "delete whole-1"}, "a 3, b 0"},
		"a pod alone evicts a group as a whole": {append(wholeGroup("n0", "n1"), podWithCPUs("n1-full", 4, 99).On("n1").Obj(), podWithCPUs("n0-full", 4, 99).On("n0").Obj()),
			[]runtime.Object{podWithCPUs("a-0", 4, 0).Obj()}, []string{"delete whole-0", "delete whole-1"}, "a 1, b 0"},
		"pods of equal priority are no victims": {withPriority(9, lowPods("n0", "n0", "n1", "n1")), gang("a", 3, 3), nil, "a 0, b 0"},
	} {
		t.Run(name, func(t *testing.T) {
			runWithGangs(t, func(env *testEnv) {
				env.create(withPriority(9, test.gang)...)
				env.wantBound(time.Minute, test.bound)
				deleted := env.deletions()
				slices.Sort(deleted)
				env.wantLines("deletions", deleted, test.deleted...)
			}, append(nodesWithCPUs(2, 8), test.running...)...)
		})
	}
}

func TestAGangThatPreemptsSaysSo(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.cluster.TerminateGracefully()
		env.create(withPriority(9, gang("a", 3, 3))...)
		time.Sleep(time.Minute)
		synctest.Wait()
		env.want("condition of a pod that was not tried", env.podScheduled("a-2"),
			"False Unschedulable: minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, pod group preemption: ongoing preemption on nominated nodes")
		env.wantLines("deletions: the victims are evicted once", env.deletions(), "delete low-0", "delete low-2")
		for _, line := range env.preemptedEvents() {
			if !strings.Contains(line, "Preempted by podgroup") || !strings.Contains(line, "on node cluster") {
				t.Errorf("Event %q", line)
			}
		}
		env.cluster.DeletePod(podWithCPUs("low-0", 4, 1).Obj())
		env.cluster.DeletePod(podWithCPUs("low-2", 4, 1).Obj())
		env.wantBound(time.Minute, "a 3, b 0")
	}, append(nodesWithCPUs(2, 8), lowPods("n0", "n1", "n1")...)...)
}

// A group whose victims could not all be evicted is tried again.
func TestAnEvictionForAGangThatFails(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		env.cluster.Inject(fakecluster.Fault{Verb: "delete", Err: apierrors.NewForbidden(v1.Resource("pods"), "low", nil)})
		env.create(withPriority(9, gang("a", 4, 4))...)
		env.wantBound(time.Minute, "a 4, b 0")
	}, append(nodesWithCPUs(2, 8), lowPods("n0", "n0", "n1", "n1")...)...)
}

func TestAGangThatMayNotPreemptWaits(t *testing.T) {
	runWithGangs(t, func(env *testEnv) {
		never := v1.PreemptNever
		pods := withPriority(9, gang("a", 3, 3))
		for _, pod := range pods {
			pod.(*v1.Pod).Spec.PreemptionPolicy = &never
		}
		env.create(pods...)
		env.wantBound(time.Minute, "a 0, b 0")
		env.wantLines("deletions", env.deletions())
	}, append(nodesWithCPUs(2, 8), lowPods("n0", "n0", "n1", "n1")...)...)
}
