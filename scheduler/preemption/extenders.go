package preemption

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// errNoCandidate is what is left when extenders have taken every plan away.
var errNoCandidate = &framework.IneligibleError{Reason: "no candidate node for preemption"}

// askExtenders lets the extenders that take part in preemption have their say,
// one after the other: each may drop plans and choose other victims. What is
// left is in the order of plans. How many budgets a changed plan violates is
// counted here, not taken from the answer.
func (p *Planner) callExtenders(r framework.PreemptionRequest, plans []*framework.PreemptionPlan) ([]*framework.PreemptionPlan, error) {
	for _, e := range r.Handle.Extenders() {
		if !e.SupportsPreemption() || !e.IsInterested(r.Pod) {
			continue
		}
		asked := make(map[string]*extenderv1.Victims, len(plans))
		for _, plan := range plans {
			asked[plan.Node] = &extenderv1.Victims{Pods: plan.Victims, NumPDBViolations: int64(plan.Violations)}
		}
		answer, err := e.ProcessPreemption(r.Pod, asked, r.Handle.SnapshotSharedLister().NodeInfos())
		if err == nil {
			err = dropEmptyNodes(e, answer)
		}
		if err != nil && e.IsIgnorable() {
			continue
		}
		if err != nil {
			return nil, err
		}
		if plans, err = p.applyExtenderAnswer(plans, answer); err != nil {
			return nil, err
		}
		if len(plans) == 0 {
			return nil, errNoCandidate
		}
	}
	return plans, nil
}

// empty drops nodes without victims from the answer of an extender that may be
// ignored, and is the error of one that may not.
func dropEmptyNodes(e fwk.Extender, answer map[string]*extenderv1.Victims) error {
	for node, victims := range answer {
		if victims != nil && len(victims.Pods) > 0 {
			continue
		}
		if !e.IsIgnorable() {
			return fmt.Errorf("extender %q: preempt: expected at least one victim pod on each node of the answer", e.Name())
		}
		delete(answer, node)
	}
	return nil
}

// changed are the plans that an answer leaves, with its victims.
func (p *Planner) applyExtenderAnswer(plans []*framework.PreemptionPlan, answer map[string]*extenderv1.Victims) ([]*framework.PreemptionPlan, error) {
	all, err := p.options.Budgets()
	if err != nil {
		return nil, err
	}
	budgets := newBudgets(all)
	var left []*framework.PreemptionPlan
	for _, plan := range plans {
		victims, stays := answer[plan.Node]
		if !stays {
			continue
		}
		if !samePods(plan.Victims, victims.Pods) {
			plan = p.withVictims(plan, victims.Pods, budgets)
		}
		left = append(left, plan)
	}
	return left, nil
}

// with is a plan with other victims, the most important first.
func (p *Planner) withVictims(plan *framework.PreemptionPlan, pods []*v1.Pod, budgets *budgets) *framework.PreemptionPlan {
	now := p.options.Clock.Now()
	victims := make([]*victim, len(pods))
	for i, pod := range pods {
		info, _ := framework.NewPodInfo(pod) // it runs, so it is no worse than it was
		victims[i] = &victim{PodInfo: info, priority: corev1.PodPriority(pod), start: startTime(pod, now)}
	}
	sortByImportance(victims)
	protected, _ := budgets.split(victims)
	other := *plan
	other.Victims, other.Violations = nil, len(protected)
	for _, v := range victims {
		other.Victims = append(other.Victims, v.GetPod())
	}
	return &other
}

func samePods(a, b []*v1.Pod) bool {
	if len(a) != len(b) {
		return false
	}
	there := map[string]bool{}
	for _, pod := range a {
		there[string(pod.UID)] = true
	}
	for _, pod := range b {
		if !there[string(pod.UID)] {
			return false
		}
	}
	return true
}
