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

	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/preemption"
)

// evictAgain is how long a preemptor waits whose victims could not all be told
// to go, unless something else happens before: the longest backoff by default.
// The queue's own backoff would not do, since an idle queue does not sit it
// out after a refusal.
const preemptionRetryAfter = 10 * time.Second

// preemptionFailed wakes a preemptor that has waited that long. Its label is
// what the metrics call the event.
var eventPreemptionFailed = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "PreemptionFailed"}

// preemptor is what the plugins of all generations are lent: preemption plans,
// binding carries out.
type preemptor struct {
	*Scheduler
	planner *preemption.Planner
}

var _ framework.Preemptor = preemptor{}

func newPreemptor(s *Scheduler) preemptor {
	pods := s.options.Informers.Core().V1().Pods().Lister()
	budgets := s.options.Informers.Policy().V1().PodDisruptionBudgets().Lister()
	random := rand.New(rand.NewPCG(s.options.Seed, 0))
	return preemptor{s, preemption.NewPlanner(preemption.Options{
		Newest:        func(pod *v1.Pod) (*v1.Pod, error) { return latestPod(pods, pod) },
		NominatedNode: s.cache.NominatedNode,
		Budgets:       func() ([]*policyv1.PodDisruptionBudget, error) { return budgets.List(labels.Everything()) },
		Offset:        random.Int32N,
		Clock:         s.options.Clock,
	})}
}

// newest returns the newest version of a pod that is being tried; the error
// says that it need not be any more.
func latestPod(pods corelisters.PodLister, pod *v1.Pod) (*v1.Pod, error) {
	newest, err := pods.Pods(pod.Namespace).Get(pod.Name)
	switch {
	case err != nil:
		return nil, err
	case newest.UID != pod.UID:
		return nil, fmt.Errorf("pod %q was re-created while it was tried", pod.Name)
	case newest.Spec.NodeName != "":
		return nil, fmt.Errorf("pod %q was bound to %s while it was tried", pod.Name, newest.Spec.NodeName)
	}
	return newest, nil
}

// Plan says who would have to leave so that the pod fits.
func (p preemptor) Plan(ctx context.Context, request framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	preemption.RecordAttempt()
	plan, err := p.planner.Plan(ctx, request)
	var hopeless *framework.FitError
	if errors.As(err, &hopeless) {
		request.State.Write(remainingRejectorsKey, remainingRejectors(hopeless.Diagnosis))
	}
	request.State.Write(preemptionResultKey, preemptionResultOf(plan, err))
	return plan, err
}

// stillRefuseKey is where an attempt's state holds who would refuse the pod
// even if others left. It was no plugin's verdict that they refused it; but
// without them there might be room.
const remainingRejectorsKey fwk.StateKey = "berth.dev/StillRefuse"

type pluginNames struct{ sets.Set[string] }

// Clone returns the names: nobody changes them.
func (n pluginNames) Clone() fwk.StateData { return n }

func remainingRejectors(diagnosis *framework.Diagnosis) pluginNames {
	names := pluginNames{sets.New[string]()}
	diagnosis.NodeToStatus.ForEachExplicitNode(func(_ string, status *fwk.Status) {
		if status.Plugin() != "" {
			names.Insert(status.Plugin())
		}
	})
	return names
}

// CarryOut begins to evict the victims. That goes on when the attempt is over
// whose context ctx is, and ends with the loop.
func (p preemptor) Execute(ctx context.Context, handle fwk.Handle, plan *framework.PreemptionPlan) {
	if !fault.EvictionEndsWithTheTurn {
		ctx = klog.NewContext(p.bindingContext, klog.FromContext(ctx))
	}
	preemption.RecordVictims(len(plan.Victims))
	klog.FromContext(ctx).V(1).Info("Preempting", "node", plan.Node, "victims", len(plan.Victims), "violations", plan.Violations)
	p.inFlight.Add(1)
	begin := p.options.Clock.Now()
	p.binding.Evict(ctx, handle, plan, func(end binding.EvictionResult) {
		defer p.inFlight.Done()
		preemption.RecordEviction(p.options.Clock.Since(begin), end.Err)
		p.recordEviction(ctx, plan, end)
	})
}

// UnderWay says whether victims of the pod with this UID are still being told
// to go.
func (p preemptor) InProgress(uid types.UID) bool { return p.binding.Evicting(uid) }

// evicted settles an eviction. The preemptor is woken here only where no event
// will do it: at once when its room is there already, and later when not all
// victims could be told, lest an API server that refuses is asked without end.
func (s *Scheduler) recordEviction(ctx context.Context, plan *framework.PreemptionPlan, end binding.EvictionResult) {
	pod := plan.Preemptor
	s.options.Ledger.Evicted(pod.Spec.SchedulerName, end.Victims)
	s.queue.GateOpened(ctx, pod.UID)
	switch {
	case end.Err != nil:
		klog.FromContext(ctx).Error(end.Err, "Preemption failed; the pod is tried again", "victimsSoFar", end.Victims)
		s.options.Clock.AfterFunc(preemptionRetryAfter, func() { s.options.Go(func() { s.retryPreemption(ctx, plan) }) })
	case !end.DeleteEventExpected:
		s.queue.Activate(ctx, map[string]*v1.Pod{pod.Name: pod})
	}
}

// tryAgain wakes the preemptor of a plan that failed.
func (s *Scheduler) retryPreemption(ctx context.Context, plan *framework.PreemptionPlan) {
	s.queue.Event(ctx, eventPreemptionFailed, nil, nil, func(pod *v1.Pod) bool { return pod.UID == plan.Preemptor.UID })
}
