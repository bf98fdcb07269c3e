package preemption

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// errNoCandidate says that the extenders have removed every candidate.
var errNoCandidate = &framework.IneligibleError{Reason: "no candidate node for preemption"}

// callExtenders calls the extenders that support preemption, one after the other.
// Each may remove plans and choose other victims; the next one gets the rest. The
// order of plans stays. Budget violations of a changed plan are counted here, not
// taken from the answer.
func (p *Planner) callExtenders(r framework.PreemptionRequest, plans []*framework.PreemptionPlan) ([]*framework.PreemptionPlan, error) {
	for _, e := range r.Handle.Extenders() {
		if !e.SupportsPreemption() || !e.IsInterested(r.Pod) {
			continue
		}
		candidates := make(map[string]*extenderv1.Victims, len(plans))
		for _, plan := range plans {
			candidates[plan.Node] = &extenderv1.Victims{Pods: plan.Victims, NumPDBViolations: int64(plan.Violations)}
		}
		answer, err := e.ProcessPreemption(r.Pod, candidates, r.Handle.SnapshotSharedLister().NodeInfos())
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

// dropEmptyNodes removes nodes without victims from the answer of an ignorable
// extender. For any other extender such a node is an error.
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

// applyExtenderAnswer returns the plans that an answer keeps, with its victims.
func (p *Planner) applyExtenderAnswer(plans []*framework.PreemptionPlan, answer map[string]*extenderv1.Victims) ([]*framework.PreemptionPlan, error) {
	all, err := p.options.Budgets()
	if err != nil {
		return nil, err
	}
	budgets := p.dryRuns.budgetsOf(all)
	var kept []*framework.PreemptionPlan
	for _, plan := range plans {
		victims, ok := answer[plan.Node]
		if !ok {
			continue
		}
		if !samePods(plan.Victims, victims.Pods) {
			plan = p.withVictims(plan, victims.Pods, budgets)
		}
		kept = append(kept, plan)
	}
	return kept, nil
}

// withVictims returns a copy of plan with other victims, the most important first.
func (p *Planner) withVictims(plan *framework.PreemptionPlan, pods []*v1.Pod, budgets *budgets) *framework.PreemptionPlan {
	now := p.options.Clock.Now()
	victims := make([]*victim, len(pods))
	for i, pod := range pods {
		info, _ := framework.NewPodInfo(pod) // the pod runs, so that a malformed affinity term does not matter
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
	uids := map[string]bool{}
	for _, pod := range a {
		uids[string(pod.UID)] = true
	}
	for _, pod := range b {
		if !uids[string(pod.UID)] {
			return false
		}
	}
	return true
}
