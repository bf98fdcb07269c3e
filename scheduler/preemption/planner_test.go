package preemption_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestVictimSelection(t *testing.T) {
	four := []*v1.Pod{
		smallPod("a", "n1", 1).StartTime(1).Obj(), smallPod("b", "n1", 2).StartTime(2).Obj(),
		smallPod("c", "n1", 2).StartTime(3).Obj(), smallPod("d", "n1", 9).StartTime(4).Obj(),
	}
	labelled := []*v1.Pod{
		smallPod("a", "n1", 1).StartTime(1).Label("app", "a").Obj(), smallPod("b", "n1", 2).StartTime(2).Label("app", "b").Obj(),
		smallPod("c", "n1", 2).StartTime(3).Label("app", "b").Obj(), smallPod("d", "n1", 9).StartTime(4).Obj(),
	}
	for name, c := range map[string]struct {
		pods       []*v1.Pod
		budgets    []*policyv1.PodDisruptionBudget
		cpu        string
		want       string
		violations int
	}{
		"the least important, and no more than it takes":                    {pods: four, cpu: "1", want: "n1: a"},
		"of equal priority the one that ran for a shorter time":             {pods: four, cpu: "2", want: "n1: c a"},
		"never one of equal or higher priority":                             {pods: four, cpu: "4", want: ""},
		"all of lower priority when it takes them all":                      {pods: four, cpu: "3", want: "n1: b c a"},
		"a budget without allowed disruptions protects its pod":             {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{budget("a", "app", "a", 0)}, want: "n1: c"},
		"a budget with allowed disruptions protects no pod":                 {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{budget("a", "app", "a", 1)}, want: "n1: a"},
		"a budget allows as many as it says, the more important ones first": {pods: labelled, cpu: "2", budgets: []*policyv1.PodDisruptionBudget{budget("b", "app", "b", 1)}, want: "n1: b a"},
		"a budget is violated where nothing else helps":                     {pods: labelled, cpu: "3", budgets: []*policyv1.PodDisruptionBudget{budget("b", "app", "b", 0)}, want: "n1: b c a", violations: 2},
		"a budget of another namespace protects no pod":                     {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{inOtherNamespace(budget("a", "app", "a", 0))}, want: "n1: a"},
		"a budget without a selector protects no pod":                       {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{withSelector(budget("a", "", "", 0), nil)}, want: "n1: a"},
		"a budget with an empty selector protects no pod":                   {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{withSelector(budget("a", "", "", 0), &metav1.LabelSelector{})}, want: "n1: a"},
		"a disruption that the API server has counted is not counted twice": {pods: labelled, cpu: "1", budgets: []*policyv1.PodDisruptionBudget{withDisruptedPod(budget("a", "app", "a", 0), "a")}, want: "n1: a"},
		"a pod with a conflicting host port is a victim":                    {pods: []*v1.Pod{smallPod("a", "n1", 1).HostPort("", v1.ProtocolTCP, 80).Obj(), smallPod("b", "n1", 0).Obj()}, cpu: "1", want: "n1: a"},
		"a node without pods of lower priority is no candidate":             {pods: []*v1.Pod{smallPod("a", "n1", 10).HostPort("", v1.ProtocolTCP, 80).Obj()}, cpu: "1", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t, nodes(1), c.pods...)
			env.budgets = c.budgets
			plan, _ := env.plan(t, fixture.Pod("shop/big").Requests("cpu", c.cpu).HostPort("", v1.ProtocolTCP, 80).Priority(9).Obj())
			if got := planString(plan); got != c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
			if plan != nil && plan.Violations != c.violations {
				t.Errorf("%d violations, want %d", plan.Violations, c.violations)
			}
		})
	}
}

func inOtherNamespace(pdb *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	pdb.Namespace = "elsewhere"
	return pdb
}

func withSelector(pdb *policyv1.PodDisruptionBudget, selector *metav1.LabelSelector) *policyv1.PodDisruptionBudget {
	pdb.Spec.Selector = selector
	return pdb
}

func withDisruptedPod(pdb *policyv1.PodDisruptionBudget, pod string) *policyv1.PodDisruptionBudget {
	pdb.Status.DisruptedPods = map[string]metav1.Time{pod: {}}
	return pdb
}

// Nodes n1 to n4 need one victim each; the higher the node's number, the lower the
// victim's priority.
func TestNumberOfCandidates(t *testing.T) {
	for name, c := range map[string]struct {
		offset, percentage, absolute int32
		protected                    []string
		want                         string
	}{
		"all nodes at 100 percent":                                            {percentage: 100, want: "n4: p4"},
		"as many as the percentage":                                           {percentage: 50, want: "n2: p2"},
		"as many as the absolute number, when that is more":                   {percentage: 25, absolute: 3, want: "n3: p3"},
		"not more than there are nodes":                                       {percentage: 25, absolute: 99, want: "n4: p4"},
		"from the offset":                                                     {offset: 2, percentage: 75, want: "n4: p4"},
		"from the offset, continuing at the first node":                       {offset: 3, percentage: 50, want: "n4: p4"},
		"none when the percentage is less than one node":                      {percentage: 10, want: ""},
		"more, while every candidate violates a budget":                       {percentage: 25, protected: []string{"p1", "p2"}, want: "n3: p3"},
		"all nodes when every candidate violates a budget, keeping the first": {percentage: 50, protected: []string{"p1", "p2", "p3", "p4"}, want: "n2: p2"},
		"violating candidates count once there is one without violations":     {percentage: 50, protected: []string{"p1"}, want: "n2: p2"},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*v1.Pod
			for i := range 4 {
				name := fmt.Sprintf("p%d", i+1)
				pods = append(pods, fixture.Pod("shop/"+name).Requests("cpu", "3").Priority(int32(4-i)).Label("name", name).On(fmt.Sprintf("n%d", i+1)).Obj())
			}
			env := newTestEnv(t, nodes(4), pods...)
			env.offset, env.percentage, env.absolute = c.offset, c.percentage, c.absolute
			for _, name := range c.protected {
				env.budgets = append(env.budgets, budget(name, "name", name, 0))
			}
			plan, _ := env.plan(t, fixture.Pod("shop/big").Requests("cpu", "3").Priority(9).Obj())
			if got := planString(plan); got != c.want {
				t.Errorf("plan %q, want %q", got, c.want)
			}
		})
	}
}

func TestNominatedPodsCountAgainstTheNode(t *testing.T) {
	env := newTestEnv(t, nodes(2), smallPod("a", "n1", 1).Obj(), smallPod("b", "n2", 5).Obj())
	for node, priority := range map[string]int32{"n1": 9, "n2": 3} {
		info, err := framework.NewPodInfo(fixture.Pod("shop/early-"+node).Requests("cpu", "3").Priority(priority).Obj())
		if err != nil {
			t.Fatal(err)
		}
		env.cache.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatedNodeName: node, NominatingMode: fwk.ModeOverride})
	}
	plan, err := env.plan(t, fixture.Pod("shop/big").Requests("cpu", "4").Priority(9).Obj())
	if got := planString(plan); got != "n2: b" {
		t.Errorf("plan %q (%v), want victim b on n2: n1 is needed by a nominated pod of equal priority", got, err)
	}
}

func TestPreemptionErrors(t *testing.T) {
	never := v1.PreemptNever
	leaving := smallPod("leaving", "n1", 1).Terminating().Mutate(func(p *v1.Pod) {
		p.Status.Conditions = []v1.PodCondition{{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		}}
	})
	for name, c := range map[string]struct {
		pods    []*v1.Pod
		pod     *fixture.PodBuilder
		want    string // the error's text, or the plan
		waiting bool   // the error is an IneligibleError: the nomination stays
	}{
		"preemptionPolicy Never": {
			pods: []*v1.Pod{smallPod("a", "n1", 1).Obj(), smallPod("b", "n2", 1).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "4").Mutate(func(p *v1.Pod) { p.Spec.PreemptionPolicy = &never }),
			want: "not eligible due to preemptionPolicy=Never.", waiting: true,
		},
		"a pod waits while its victims terminate": {
			pods: []*v1.Pod{leaving.Obj(), smallPod("a", "n2", 1).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "4").NominatedNodeName("n1"),
			want: "not eligible due to a terminating pod on the nominated node.", waiting: true,
		},
		"a pod does not wait for victims on an unresolvable node": {
			pods: []*v1.Pod{leaving.Obj(), smallPod("a", "n2", 1).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "4").NominatedNodeName("n3"),
			want: "n1: leaving",
		},
		"a pod does not wait for victims on a node that does not exist": {
			pods: []*v1.Pod{smallPod("a", "n2", 1).Obj(), smallPod("b", "n1", 2).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "4").NominatedNodeName("gone"),
			want: "n2: a",
		},
		"preemption does not help a pod that is larger than every node": {
			pods: []*v1.Pod{smallPod("a", "n1", 1).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "5"),
			want: "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
		},
		"reasons are counted by node": {
			pods: []*v1.Pod{smallPod("a", "n1", 9).Obj(), smallPod("b", "n2", 1).Obj(), smallPod("c", "n2", 9).Obj()},
			pod:  fixture.Pod("shop/big").Requests("cpu", "4"),
			want: "0/3 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			three := append(nodes(2), fixture.Node("n3").Capacity("cpu", "4", "pods", "10").Taint("only", "others", v1.TaintEffectNoSchedule).Obj())
			env := newTestEnv(t, three, c.pods...)
			plan, err := env.plan(t, c.pod.Priority(9).Obj())
			got := planString(plan)
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("error or plan (-want +got):\n%s", diff)
			}
			var ineligible *framework.IneligibleError
			if errors.As(err, &ineligible) != c.waiting {
				t.Errorf("error %T, waiting should be %v", err, c.waiting)
			}
		})
	}
}

func TestAPlanChangesNothing(t *testing.T) {
	env := newTestEnv(t, nodes(1), smallPod("a", "n1", 1).Obj(), smallPod("b", "n1", 2).Obj(), smallPod("c", "n1", 9).Obj())
	before := env.cache.Snapshot().Node("n1").Clone().String()
	if plan, err := env.plan(t, fixture.Pod("shop/big").Requests("cpu", "3").Priority(9).Obj()); plan == nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, env.cache.Snapshot().Node("n1").String()); diff != "" {
		t.Errorf("the node (-before +after):\n%s", diff)
	}
}
