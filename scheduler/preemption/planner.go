// Package preemption answers who could make room for a pod that fits nowhere:
// which nodes would do, who would have to leave each of them, and which node
// is the least loss. It computes a plan and changes nothing; binding carries
// it out.
//
// The rules are those of kube-scheduler's packages framework/preemption and
// framework/plugins/defaultpreemption, with nodes tried one after the other.
package preemption

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Options are what a Planner is built from. All are required.
type Options struct {
	// Newest returns the newest version of a pod that has no node; the error
	// says that it is gone.
	Newest func(pod *v1.Pod) (*v1.Pod, error)
	// NominatedNode returns the node that a pod is nominated for, "" when there
	// is none. The pod's status may not say so yet: statuses are written beside
	// the loop, and a pod that forgot whom it has evicted would evict others.
	NominatedNode func(uid types.UID) string
	// Budgets returns all PodDisruptionBudgets. They are not changed.
	Budgets func() ([]*policyv1.PodDisruptionBudget, error)
	// Offset says at which of n nodes to begin, from 0 to n-1. It varies, so
	// that not always the same nodes are emptied.
	Offset func(n int32) int32
	Clock  clock.PassiveClock
}

// Planner makes plans. It belongs to the loop, as the snapshot does.
type Planner struct{ options Options }

// NewPlanner returns a Planner.
func NewPlanner(o Options) *Planner { return &Planner{options: o} }

// Plan says who would have to leave so that the request's pod fits; see
// framework.Preemptor.
func (p *Planner) Plan(ctx context.Context, r framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	plans, err := p.Candidates(ctx, r)
	if err != nil {
		return nil, err
	}
	if plans, err = p.callExtenders(r, plans); err != nil {
		return nil, err
	}
	plan := p.Choose(plans)
	plan.Candidates = len(plans)
	return plan, nil
}

// Choose returns the plan that is the least loss, the first of equals. There
// must be one.
func (p *Planner) Choose(plans []*framework.PreemptionPlan) *framework.PreemptionPlan {
	return pickPlan(plans, p.options.Clock.Now())
}

// Candidates returns the plans that Plan chooses from, at least one: those that
// violate no budget first, otherwise in the order in which nodes were tried.
// The errors are Plan's.
func (p *Planner) Candidates(ctx context.Context, r framework.PreemptionRequest) ([]*framework.PreemptionPlan, error) {
	pod, err := p.options.Newest(r.Pod)
	if err != nil {
		return nil, err
	}
	r.Pod = withNominatedNode(pod, p.options.NominatedNode(pod.UID))
	lister := r.Handle.SnapshotSharedLister().NodeInfos()
	if err := checkEligible(r, lister); err != nil && !fault.OthersVictimsRenamed {
		return nil, err
	}
	nodes, err := lister.List()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("no nodes available")
	}
	candidates, refusals, err := p.findCandidates(ctx, r, lister)
	if len(candidates) > 0 {
		return candidates, nil
	}
	if err != nil {
		return nil, err
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus = refusals
	refusals.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
	return nil, &framework.FitError{NumAllNodes: len(nodes), Diagnosis: diagnosis}
}

// nominated returns the pod with the node that it is nominated for.
func withNominatedNode(pod *v1.Pod, node string) *v1.Pod {
	if node == "" || node == pod.Status.NominatedNodeName {
		return pod
	}
	told := *pod
	told.Status.NominatedNodeName = node
	return &told
}

// eligible says why the pod may not preempt others now. While pods that were
// evicted on its nominated node are still leaving, it has to wait for them;
// unless that node will not do in any case.
func checkEligible(r framework.PreemptionRequest, lister fwk.NodeInfoLister) error {
	if policy := r.Pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		return &framework.IneligibleError{Reason: "not eligible due to preemptionPolicy=Never."}
	}
	name := r.Pod.Status.NominatedNodeName
	if name == "" || r.NodeToStatus.Get(name).Code() == fwk.UnschedulableAndUnresolvable {
		return nil
	}
	node, err := lister.Get(name)
	if err != nil {
		return nil // The nominated node is gone, and with it the room there.
	}
	for _, other := range node.GetPods() {
		if corev1.PodPriority(other.GetPod()) < corev1.PodPriority(r.Pod) && terminatingByPreemption(other.GetPod()) {
			return &framework.IneligibleError{Reason: "not eligible due to a terminating pod on the nominated node.", VictimsTerminating: true}
		}
	}
	return nil
}

// leavesPreempted says whether a pod is terminating because a scheduler
// preempted it.
func terminatingByPreemption(pod *v1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
		}
	}
	return false
}

// candidates are plans for enough of the nodes that others' leaving might
// open. Those that violate no budget come first. refusals says what is wrong
// with the nodes that were tried in vain; the error collects what went wrong.
func (p *Planner) findCandidates(ctx context.Context, r framework.PreemptionRequest, lister fwk.NodeInfoLister) (
	found []*framework.PreemptionPlan, refusals *framework.NodeToStatus, err error) {
	refusals = framework.NewNodeToStatus()
	nodes, err := r.NodeToStatus.NodesForStatusCode(lister, fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, refusals, err
	}
	all, err := p.options.Budgets()
	if err != nil {
		return nil, refusals, err
	}
	budgets := newBudgets(all)
	offset, enough := int(p.options.Offset(int32(len(nodes)))), calculateNumCandidates(r, len(nodes))
	var clean, violating []*framework.PreemptionPlan
	var errs []error
	for i := 0; i < len(nodes) && ctx.Err() == nil; i++ {
		node := nodes[(offset+i)%len(nodes)]
		plan, status := p.planForNode(ctx, r, node, budgets)
		switch {
		case status.Code() == fwk.Error:
			errs = append(errs, status.AsError())
			fallthrough
		case !status.IsSuccess():
			refusals.Set(node.Node().Name, status)
		case plan.Violations == 0 && len(clean) < enough:
			clean = append(clean, plan)
		case plan.Violations > 0 && len(violating) < enough:
			violating = append(violating, plan)
		}
		// As long as every candidate violates a budget, the search goes on.
		if len(clean) > 0 && len(clean)+len(violating) >= enough {
			break
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	klog.FromContext(ctx).V(4).Info("Looked for victims", "nodes", len(nodes), "offset", offset, "enough", enough,
		"candidates", len(clean), "violating", len(violating))
	return append(clean, violating...), refusals, utilerrors.NewAggregate(errs)
}

// enough is how many candidates are looked for among n nodes.
func calculateNumCandidates(r framework.PreemptionRequest, n int) int {
	return min(max(n*int(r.MinPercentage)/100, int(r.MinAbsolute)), n)
}

// try plans for one node; the status says why nobody's leaving it would help.
func (p *Planner) planForNode(ctx context.Context, r framework.PreemptionRequest, node fwk.NodeInfo, budgets *budgets) (*framework.PreemptionPlan, *fwk.Status) {
	// Before anything is copied: most nodes have nobody to evict.
	evictable := lowerPriorityPods(node, corev1.PodPriority(r.Pod), p.options.Clock.Now())
	if len(evictable) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	t := dryRun{request: r, state: r.State.Clone(), node: node.Snapshot()}
	victims, violations, status := t.selectVictims(ctx, evictable, budgets)
	if !status.IsSuccess() {
		return nil, status
	}
	if len(victims) == 0 {
		return nil, fwk.AsStatus(fmt.Errorf("expected at least one victim pod on node %q", node.Node().Name))
	}
	return &framework.PreemptionPlan{Preemptor: r.Pod, Node: node.Node().Name, Victims: victims, Violations: violations}, nil
}
