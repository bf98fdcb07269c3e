package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/preemption"
	"github.com/berthdev/berth/scheduler/queue"
)

// preemptionRetryAfter is how long a preemptor waits when some of its victims could
// not be evicted, unless an event requeues it before: the default maximum backoff. The
// queue's own backoff is not enough, since an idle queue pops a pod before its backoff
// ends.
const preemptionRetryAfter = 10 * time.Second

// eventPreemptionFailed requeues a preemptor after preemptionRetryAfter. CustomLabel is
// the event's name in metrics.
var eventPreemptionFailed = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "PreemptionFailed"}

// preemptor implements framework.Preemptor for the plugins of all generations: the
// package preemption makes plans, binding evicts the victims.
type preemptor struct {
	options  Options
	planner  *preemption.Planner
	binding  *binding.Binding
	queue    *queue.Queue
	inFlight *inFlight
}

var _ framework.Preemptor = preemptor{}

// newPlanner returns a planner that reads the informers and the nominations in the cache.
func newPlanner(o Options, nominations *cache.Cache) *preemption.Planner {
	pods := o.Informers.Core().V1().Pods().Lister()
	budgets := o.Informers.Policy().V1().PodDisruptionBudgets().Lister()
	random := rand.New(rand.NewPCG(o.Seed, 0))
	return preemption.NewPlanner(preemption.Options{
		Newest:             func(pod *v1.Pod) (*v1.Pod, error) { return latestPod(pods, pod) },
		NominatedNode:      nominations.NominatedNode,
		NominationsVersion: nominations.NominationsVersion,
		Budgets:            func() ([]*policyv1.PodDisruptionBudget, error) { return budgets.List(labels.Everything()) },
		Offset:             random.Int32N,
		Groups:             nominations.Groups(),
		Clock:              o.Clock,
	})
}

// latestPod returns the newest version of a pod that is being scheduled. It returns an
// error when the pod need not be scheduled any more.
func latestPod(pods corelisters.PodLister, pod *v1.Pod) (*v1.Pod, error) {
	latest, err := pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case err != nil:
		return nil, err
	case latest.UID != pod.UID:
		return nil, fmt.Errorf("pod %q was recreated while it was being scheduled", pod.Name)
	case latest.Spec.NodeName != "":
		return nil, fmt.Errorf("pod %q was bound to %s while it was being scheduled", pod.Name, latest.Spec.NodeName)
	}
	return latest, nil
}

// Plan returns which victims would have to be evicted so that the pod fits. The
// explanation and the queue read the result from the attempt's CycleState.
func (p preemptor) Plan(ctx context.Context, request framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	start := p.options.Clock.Now()
	plan, err := p.planner.Plan(ctx, request)
	preemption.RecordAttempt(err, p.options.Clock.Since(start))
	if state, ok := request.State.(*framework.CycleState); ok {
		state.SetPreemption(&framework.PreemptionSearch{Plan: plan, Err: err})
	}
	return plan, err
}

// PlanGroup returns which victims would have to be evicted so that the group fits. The
// explanation reads the result from the state of the group's attempt.
func (p preemptor) PlanGroup(ctx context.Context, request framework.GroupPreemptionRequest) (*framework.GroupPreemptionPlan, *fwk.Status) {
	start := p.options.Clock.Now()
	plan, status := p.planner.PlanGroup(ctx, request)
	preemption.RecordGroupAttempt(status.Code(), p.options.Clock.Since(start))
	if state, ok := request.State.(*framework.GroupCycleState); ok && status.IsSuccess() {
		state.SetPreemption(&framework.PreemptionSearch{Plan: plan.PreemptionPlan, Terminating: plan.Terminating})
	}
	return plan, status
}

// remainingRejectors returns the plugins that would reject the pod even without its
// potential victims. They did not reject it in Filter, but an event that concerns them can
// make preemption possible.
func remainingRejectors(diagnosis *framework.Diagnosis) sets.Set[string] {
	names := sets.New[string]()
	diagnosis.NodeToStatus.ForEachExplicitNode(func(_ string, status *fwk.Status) {
		if status.Plugin() != "" {
			names.Insert(status.Plugin())
		}
	})
	return names
}

// preemptionResult returns the outcome of preemption in the attempt; nil when no plugin
// tried it.
func (s *Scheduler) preemptionResult(t *schedulingCycle) *v1alpha1.PreemptionResult {
	search := t.state.Preemption()
	var fitErr *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case search == nil:
		return s.evictionResult(t.Pod.UID)
	case search.Err == nil:
		return planResult(search.Plan, v1alpha1.PreemptionVictimsChosen)
	case errors.As(search.Err, &fitErr):
		return &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionNoCandidates}
	case errors.As(search.Err, &ineligible) && ineligible.VictimsTerminating:
		return &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionUnderWay}
	case ineligible != nil:
		return &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionNotEligible}
	}
	return &v1alpha1.PreemptionResult{Outcome: v1alpha1.PreemptionFailed}
}

// groupPreemptionResult returns the outcome of preemption in the attempt of a group; nil where
// the group waits for no victims.
func groupPreemptionResult(state *framework.GroupCycleState) *v1alpha1.PreemptionResult {
	search := state.Preemption()
	switch {
	case search == nil:
		return nil
	case search.Plan != nil:
		return planResult(search.Plan, v1alpha1.PreemptionVictimsChosen)
	}
	return &v1alpha1.PreemptionResult{
		Victims: int32(len(search.Terminating)), Nodes: int32(framework.VictimNodes(search.Terminating)), Outcome: v1alpha1.PreemptionUnderWay,
	}
}

// evictionResult returns the outcome of preemption for a pod whose victims, or those of its
// group, are being evicted; nil where there are none.
func (s *Scheduler) evictionResult(uid types.UID) *v1alpha1.PreemptionResult {
	plan := s.binding.EvictionFor(uid)
	if plan == nil {
		return nil
	}
	return planResult(plan, v1alpha1.PreemptionUnderWay)
}

// planResult counts what a plan has.
func planResult(plan *framework.PreemptionPlan, outcome v1alpha1.PreemptionOutcome) *v1alpha1.PreemptionResult {
	result := &v1alpha1.PreemptionResult{Candidates: int32(plan.Candidates), Victims: int32(len(plan.Victims)), Outcome: outcome}
	if plan.Group != nil {
		result.Nodes = int32(framework.VictimNodes(plan.Victims))
	}
	return result
}

// Execute starts to evict the plan's victims. The eviction outlives the attempt of ctx
// and ends with the loop.
func (p preemptor) Execute(ctx context.Context, handle fwk.Handle, plan *framework.PreemptionPlan) {
	ctx = klog.NewContext(p.inFlight.ctx, klog.FromContext(ctx))
	preemption.RecordPlan(plan)
	klog.FromContext(ctx).V(1).Info("Preempting", "node", plan.Node, "victims", len(plan.Victims), "violations", plan.Violations)
	p.inFlight.Add(1)
	start := p.options.Clock.Now()
	p.binding.Evict(ctx, handle, plan, func(result binding.EvictionResult) {
		defer p.inFlight.Done()
		preemption.RecordEviction(plan, p.options.Clock.Since(start), result.Err)
		p.recordEviction(ctx, plan, result)
	})
}

// InProgress reports whether victims of the pod are still being evicted.
func (p preemptor) InProgress(uid types.UID) bool { return p.binding.Evicting(uid) }

// recordEviction handles the end of an eviction. It requeues the preemptor only where no
// event will: at once when its victims are gone already, and after preemptionRetryAfter
// when an eviction failed, so that a failing API server is not called without pause.
func (p preemptor) recordEviction(ctx context.Context, plan *framework.PreemptionPlan, result binding.EvictionResult) {
	pods := map[string]*v1.Pod{}
	for _, pod := range plan.Preemptors() {
		pods[pod.Name] = pod
		p.queue.GateOpened(ctx, pod.UID)
	}
	p.options.Ledger.Evicted(plan.Preemptor.Spec.SchedulerName, result.Victims)
	switch {
	case result.Err != nil:
		klog.FromContext(ctx).Error(result.Err, "Preemption failed; the preemptor is tried again", "evictedVictims", result.Victims)
		p.options.Clock.AfterFunc(preemptionRetryAfter, func() { p.options.Go(func() { p.retryPreemption(ctx, plan) }) })
	case !result.DeleteEventExpected:
		p.queue.Activate(ctx, pods)
	}
}

// retryPreemption requeues the preemptor of a plan that failed.
func (p preemptor) retryPreemption(ctx context.Context, plan *framework.PreemptionPlan) {
	uids := sets.New[types.UID]()
	for _, pod := range plan.Preemptors() {
		uids.Insert(pod.UID)
	}
	p.queue.Event(ctx, eventPreemptionFailed, nil, nil, func(pod *v1.Pod) bool { return uids.Has(pod.UID) })
}
