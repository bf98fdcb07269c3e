// Package preemption plans which pods to evict so that a pod which fits on no node
// can be scheduled: the candidate nodes, the victims on each, and the best candidate.
// It changes nothing; package binding carries a plan out.
//
// The rules are those of kube-scheduler's packages framework/preemption and
// framework/plugins/defaultpreemption, with nodes tried one after the other.
package preemption

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Options are the dependencies of a Planner. All but Groups are required.
type Options struct {
	// Newest returns the newest version of a pod that has no node. An error says
	// that the pod does not exist any more.
	Newest func(pod *v1.Pod) (*v1.Pod, error)
	// NominatedNode returns the node that a pod is nominated for, "" for none. The
	// pod's status may not have it yet, because it is written in the background. A
	// preemptor without its nomination would evict further pods.
	NominatedNode func(uid types.UID) string
	// NominationsVersion returns a number that changes whenever the pods that are nominated for a
	// node do.
	NominationsVersion func(node string) uint64
	// Budgets returns all PodDisruptionBudgets, which the Planner does not change.
	Budgets func() ([]*policyv1.PodDisruptionBudget, error)
	// Offset returns the index of the first of n nodes to try, from 0 to n-1. It
	// varies, so that victims are not always taken from the same nodes.
	Offset func(n int32) int32
	// Groups are the groups of pods; may be nil.
	Groups *podgroups.Store
	Clock  clock.PassiveClock
}

// Planner makes preemption plans. It belongs to the scheduling loop.
type Planner struct {
	options Options
	dryRuns dryRuns
}

// NewPlanner returns a Planner.
func NewPlanner(o Options) *Planner { return &Planner{options: o} }

// Plan returns the best plan that makes the request's pod fit; see
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

// Choose returns the best plan, the first of equals. plans must not be empty.
func (p *Planner) Choose(plans []*framework.PreemptionPlan) *framework.PreemptionPlan {
	return pickPlan(plans, p.options.Clock.Now())
}

// Candidates returns the plans that Plan chooses from, at least one: those that
// violate no budget first, otherwise in the order in which nodes were tried. The
// errors are those of Plan.
func (p *Planner) Candidates(ctx context.Context, r framework.PreemptionRequest) ([]*framework.PreemptionPlan, error) {
	pod, err := p.options.Newest(r.Pod)
	if err != nil {
		return nil, err
	}
	class := classOf(r, pod)
	r.Pod = withNominatedNode(pod, p.options.NominatedNode(pod.UID))
	lister := r.Handle.SnapshotSharedLister().NodeInfos()
	if err := p.checkEligible(r, lister); err != nil {
		return nil, err
	}
	nodes, err := lister.List()
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, errors.New("no nodes available")
	}
	candidates, statuses, err := p.findCandidates(ctx, r, class, lister)
	if abandoned := framework.CheckAbandoned(r.State); abandoned != nil {
		return nil, abandoned
	}
	if len(candidates) > 0 {
		return candidates, nil
	}
	if err != nil {
		return nil, err
	}
	diagnosis := framework.NewDiagnosis()
	diagnosis.NodeToStatus = statuses
	statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "Preemption is not helpful for scheduling"))
	return nil, &framework.FitError{NumAllNodes: len(nodes), Diagnosis: diagnosis}
}

// withNominatedNode returns pod with the node that it is nominated for.
func withNominatedNode(pod *v1.Pod, node string) *v1.Pod {
	if node == "" || node == pod.Status.NominatedNodeName {
		return pod
	}
	copied := *pod
	copied.Status.NominatedNodeName = node
	return &copied
}

// checkEligible returns an error when the pod may not preempt others now: while pods
// that were preempted on its nominated node terminate, it has to wait for them, unless
// that node is unresolvable for it.
func (p *Planner) checkEligible(r framework.PreemptionRequest, lister fwk.NodeInfoLister) error {
	if policy := r.Pod.Spec.PreemptionPolicy; policy != nil && *policy == v1.PreemptNever {
		return &framework.IneligibleError{Reason: "not eligible due to preemptionPolicy=Never."}
	}
	name := r.Pod.Status.NominatedNodeName
	if name == "" || r.NodeToStatus.Get(name).Code() == fwk.UnschedulableAndUnresolvable {
		return nil
	}
	node, err := lister.Get(name)
	if err != nil {
		return nil // the nominated node does not exist any more
	}
	if len(p.terminatingVictims(node, corev1.PodPriority(r.Pod))) > 0 {
		return &framework.IneligibleError{Reason: "not eligible due to a terminating pod on the nominated node.", VictimsTerminating: true}
	}
	return nil
}

// terminatingVictims returns the pods of lower priority on the node that terminate because a
// scheduler preempted them.
func (p *Planner) terminatingVictims(node fwk.NodeInfo, below int32) (victims []*v1.Pod) {
	search := victimSearch{groups: p.options.Groups}
	for _, info := range node.GetPods() {
		if !terminatingByPreemption(info.GetPod()) {
			continue
		}
		if priority, _, _ := search.priorityOf(framework.OriginalPod(info)); priority < below {
			victims = append(victims, info.GetPod())
		}
	}
	return victims
}

// terminatingByPreemption reports whether a pod terminates because a scheduler
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

// findCandidates makes plans for nodes that preemption may help, until it has enough.
// Plans that violate no budget come first. statuses has the status of each node that
// was tried without success; err collects the errors of plugins.
func (p *Planner) findCandidates(ctx context.Context, r framework.PreemptionRequest, class uint64, lister fwk.NodeInfoLister) (
	found []*framework.PreemptionPlan, statuses *framework.NodeToStatus, err error) {
	statuses = framework.NewNodeToStatus()
	nodes, err := r.NodeToStatus.NodesForStatusCode(lister, fwk.Unschedulable)
	if err != nil || len(nodes) == 0 {
		return nil, statuses, err
	}
	all, err := p.options.Budgets()
	if err != nil {
		return nil, statuses, err
	}
	search, err := p.newSearch(r, class, lister, p.dryRuns.budgetsOf(all))
	if err != nil {
		return nil, statuses, err
	}
	offset, enough := int(p.options.Offset(int32(len(nodes)))), calculateNumCandidates(r, len(nodes))
	var clean, violating []*framework.PreemptionPlan
	var errs []error
	for i := 0; i < len(nodes) && ctx.Err() == nil; i++ {
		node := nodes[(offset+i)%len(nodes)]
		plan, status := search.planForNode(ctx, node)
		switch {
		case status.Code() == fwk.Error:
			errs = append(errs, status.AsError())
			fallthrough
		case !status.IsSuccess():
			statuses.Set(node.Node().Name, status)
		case plan.Violations == 0 && len(clean) < enough:
			clean = append(clean, plan)
		case plan.Violations > 0 && len(violating) < enough:
			violating = append(violating, plan)
		}
		// While all candidates violate a budget, the search goes on.
		if len(clean) > 0 && len(clean)+len(violating) >= enough {
			break
		}
	}
	if ctx.Err() != nil {
		errs = append(errs, context.Cause(ctx))
	}
	klog.FromContext(ctx).V(4).Info("Looked for victims", "nodes", len(nodes), "offset", offset, "wanted", enough,
		"candidates", len(clean), "violating", len(violating))
	return append(clean, violating...), statuses, utilerrors.NewAggregate(errs)
}

// calculateNumCandidates returns how many candidates are searched among n nodes.
func calculateNumCandidates(r framework.PreemptionRequest, n int) int {
	return min(max(n*int(r.MinPercentage)/100, int(r.MinAbsolute)), n)
}

// candidateSearch makes plans for one node after the other.
type candidateSearch struct {
	*Planner
	request framework.PreemptionRequest
	nodes   fwk.NodeInfoLister
	budgets *budgets
	now     time.Time
	// kept are the dry runs for pods like this one; nil where they may differ.
	kept *classDryRuns
}

func (p *Planner) newSearch(r framework.PreemptionRequest, class uint64, lister fwk.NodeInfoLister, budgets *budgets) (*candidateSearch, error) {
	all, err := lister.List()
	if err != nil {
		return nil, err
	}
	return &candidateSearch{
		Planner: p, request: r, nodes: lister, budgets: budgets, now: p.options.Clock.Now(),
		kept: p.dryRuns.of(class, corev1.PodPriority(r.Pod), len(all)),
	}, nil
}

// classOf returns the class of the request's pod; 0 for none, and where the pod was changed since
// its attempt began: newest is its newest version.
func classOf(r framework.PreemptionRequest, newest *v1.Pod) uint64 {
	state, ok := r.State.(*framework.CycleState)
	if !ok || newest != r.Pod {
		return 0
	}
	return state.PodClass()
}

// planForNode makes a plan for one node, by an earlier dry run where nothing that it depends on
// has changed. The status says why preemption does not help there.
func (s *candidateSearch) planForNode(ctx context.Context, node fwk.NodeInfo) (*framework.PreemptionPlan, *fwk.Status) {
	name := node.Node().Name
	// The nomination of the pod itself does not count.
	if s.kept == nil || s.request.Pod.Status.NominatedNodeName == name {
		return s.dryRun(ctx, node)
	}
	generation, nominations := node.GetGeneration(), s.options.NominationsVersion(name)
	if last, ok := s.kept.byNode[name]; ok && last.isValidFor(generation, nominations, s.now) {
		return last.planFor(s.request.Pod), last.status
	}
	plan, status := s.dryRun(ctx, node)
	if notBefore, ok := validFrom(node, s.now); ok && status.Code() != fwk.Error {
		s.kept.byNode[name] = dryRunResult{generation, nominations, notBefore, plan, status}
	}
	return plan, status
}

// dryRun makes a plan for one node. The status says why preemption does not help there.
func (s *candidateSearch) dryRun(ctx context.Context, node fwk.NodeInfo) (*framework.PreemptionPlan, *fwk.Status) {
	// Before anything is copied: most nodes have no pod of lower priority.
	search := victimSearch{groups: s.options.Groups, nodes: s.nodes, below: corev1.PodPriority(s.request.Pod), now: s.now}
	evictable := search.on(node)
	if len(evictable) == 0 {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "No preemption victims found for incoming pod")
	}
	d := dryRun{request: s.request, state: s.request.State.Clone(), node: node.Snapshot(), nodes: s.nodes}
	victims, status := d.selectVictims(ctx, evictable, s.budgets)
	if !status.IsSuccess() {
		return nil, status
	}
	if len(victims) == 0 {
		return nil, fwk.AsStatus(fmt.Errorf("expected at least one victim pod on node %q", node.Node().Name))
	}
	return &framework.PreemptionPlan{
		Preemptor: s.request.Pod, Node: node.Node().Name, Victims: podsOf(victims), Violations: violationsOf(victims), GroupDisruptions: groupsOf(victims),
	}, nil
}
