package preemption

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
	"github.com/berthdev/berth/test/support/fixture"
)

// plan returns a plan for node. Each victim is a priority and a start time; 0: not
// started.
func plan(node string, violations int, victims ...[2]int) *framework.PreemptionPlan {
	e := &framework.PreemptionPlan{Node: node, Violations: violations}
	for _, v := range victims {
		pod := fixture.Pod("victim").Priority(int32(v[0]))
		if v[1] > 0 {
			pod.StartTime(v[1])
		}
		e.Victims = append(e.Victims, pod.Obj())
	}
	return e
}

// Each case is equal in all criteria before its own, and the node that should win
// would lose on the next one.
func TestPickPlan(t *testing.T) {
	now := fixture.Pod("p").StartTime(1000).Obj().Status.StartTime.Time
	for name, c := range map[string]struct {
		plans []*framework.PreemptionPlan
		want  string
	}{
		"fewer violated budgets outrank every priority": {
			plans: []*framework.PreemptionPlan{plan("a", 1, [2]int{1, 1}), plan("b", 0, [2]int{100, 1})},
			want:  "b",
		},
		"the priority of the most important victim counts before the others": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 1}), plan("b", 0, [2]int{8, 1}, [2]int{8, 1}, [2]int{8, 1})},
			want:  "b",
		},
		"then the sum of the priorities": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 9}, [2]int{5, 9}), plan("b", 0, [2]int{9, 1}, [2]int{4, 1})},
			want:  "b",
		},
		"more victims of negative priority are the greater sum": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{-5, 9}, [2]int{-5, 9}), plan("b", 0, [2]int{-5, 1})},
			want:  "b",
		},
		"then the latest start of the most important victims, of whom the oldest counts": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 3}, [2]int{9, 7}), plan("b", 0, [2]int{9, 4}, [2]int{9, 4})},
			want:  "b",
		},
		"the start of victims with a lower priority does not count": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 4}, [2]int{8, 9}), plan("b", 0, [2]int{9, 5}, [2]int{8, 1})},
			want:  "b",
		},
		"the start of the victim with the highest priority counts, which is not the first where a PodGroup has another priority than its pods": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{0, 2}, [2]int{50, 5}), plan("b", 0, [2]int{0, 1}, [2]int{50, 9})},
			want:  "b",
		},
		"a victim that has not started yet starts now": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 999}), plan("b", 0, [2]int{9, 0})},
			want:  "b",
		},
		"the first of equals wins": {
			plans: []*framework.PreemptionPlan{plan("a", 0, [2]int{9, 4}), plan("b", 0, [2]int{9, 4})},
			want:  "a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pickPlan(c.plans, now).Node; got != c.want {
				t.Errorf("chose %s, want %s", got, c.want)
			}
		})
	}
}

// Plans with equal sums and different numbers of victims would need priorities outside
// the range of int32, so that this criterion is tested alone.
func TestFewerVictimsScoreHigher(t *testing.T) {
	few, many := plan("few", 0, [2]int{9, 1}), plan("many", 0, [2]int{9, 1}, [2]int{9, 1})
	const byNumber = 3
	if criteria[byNumber](few, time.Time{}) <= criteria[byNumber](many, time.Time{}) {
		t.Error("one victim does not score higher than two")
	}
}

func TestVictimsAreOrderedByImportance(t *testing.T) {
	node := framework.NewNodeInfo(
		fixture.Pod("new").Priority(5).Obj(),
		fixture.Pod("newer").Priority(5).Obj(),
		fixture.Pod("young").Priority(5).StartTime(9).Obj(),
		fixture.Pod("old").Priority(5).StartTime(2).Obj(),
		fixture.Pod("great").Priority(7).Obj(),
		fixture.Pod("greatest").Priority(10).Obj(),
	)
	search := victimSearch{below: 10, now: fixture.Pod("p").StartTime(1000).Obj().Status.StartTime.Time}
	victims := search.on(node)
	sortByImportance(victims)
	want := []string{"great", "old", "young", "new", "newer"}
	if len(victims) != len(want) {
		t.Fatalf("%d victims, want %d: a pod of equal priority is no victim", len(victims), len(want))
	}
	for i, v := range victims {
		if v.GetPod().Name != want[i] {
			t.Errorf("victim %d is %s, want %s", i, v.GetPod().Name, want[i])
		}
	}
}

// A group that is disrupted as a whole is one victim, and stays rather than single pods.
func TestVictimsInGroups(t *testing.T) {
	groups, nodes := podgroups.NewStore(), cache.New()
	for name, mode := range map[string]*schedulingv1beta1.DisruptionMode{"whole": {All: &schedulingv1beta1.AllDisruptionMode{}}, "loose": nil, "vip": nil} {
		priority := int32(5)
		if name == "vip" {
			priority = 10
		}
		groups.SetPodGroup(podgroups.Native, &schedulingv1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec:       schedulingv1beta1.PodGroupSpec{Priority: &priority, DisruptionMode: mode},
		})
	}
	for _, node := range []string{"n1", "n2"} {
		nodes.SetNode(fixture.Node(node).Capacity("cpu", "8").Obj())
		for _, group := range []string{"", "loose", "vip", "whole"} {
			pod := fixture.Pod(node + group).Priority(5).StartTime(3).On(node).Mutate(func(p *v1.Pod) {
				if group != "" {
					p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
				}
			}).Obj()
			nodes.SetPod(pod)
			groups.SetPod(pod)
		}
	}
	search := victimSearch{groups: groups, nodes: nodes.UpdateSnapshot().NodeInfos(), below: 10}
	var victims []*victim
	for _, node := range nodes.Snapshot().Nodes() {
		victims = append(victims, search.on(node)...)
	}
	sortByImportance(victims)
	var got []string
	for _, v := range victims {
		names := []string{}
		for info := range v.pods() {
			names = append(names, info.GetPod().Name)
		}
		got = append(got, strings.Join(names, "+"))
	}
	want := []string{"n1whole+n2whole", "n1loose", "n2loose", "n1", "n2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if groupsOf(victims) != 3 {
		t.Errorf("%d victims are groups or pods of groups, want 3", groupsOf(victims))
	}
}

func TestTerminatingByPreemption(t *testing.T) {
	condition := func(kind v1.PodConditionType, status v1.ConditionStatus, reason string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: kind, Status: status, Reason: reason}}
		}
	}
	preempted := condition(v1.DisruptionTarget, v1.ConditionTrue, v1.PodReasonPreemptionByScheduler)
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"a pod that terminates by preemption":         {fixture.Pod("p").Terminating().Mutate(preempted).Obj(), true},
		"a pod that does not terminate yet":           {fixture.Pod("p").Mutate(preempted).Obj(), false},
		"a pod that another client has deleted":       {fixture.Pod("p").Terminating().Obj(), false},
		"a pod that is evicted by taint":              {fixture.Pod("p").Terminating().Mutate(condition(v1.DisruptionTarget, v1.ConditionTrue, "DeletionByTaintManager")).Obj(), false},
		"a pod whose preemption was cancelled":        {fixture.Pod("p").Terminating().Mutate(condition(v1.DisruptionTarget, v1.ConditionFalse, v1.PodReasonPreemptionByScheduler)).Obj(), false},
		"a pod with that reason in another condition": {fixture.Pod("p").Terminating().Mutate(condition(v1.PodReady, v1.ConditionTrue, v1.PodReasonPreemptionByScheduler)).Obj(), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := terminatingByPreemption(c.pod); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
