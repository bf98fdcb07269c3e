package sandbox

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/preemption"
)

// rehearsal plans in earnest and carries nothing out: that victims go is for
// the caller to say. The search for them begins at the first node, always.
type dryRunPreemptor struct {
	*preemption.Planner
	// plan is what would have been carried out last, candidates are those that
	// it was chosen from.
	plan       *framework.PreemptionPlan
	candidates []*framework.PreemptionPlan
}

var _ framework.Preemptor = &dryRunPreemptor{}

func (s *Scheduler) newDryRunPreemptor() *dryRunPreemptor {
	budgets := s.Factory.Policy().V1().PodDisruptionBudgets().Lister()
	return &dryRunPreemptor{Planner: preemption.NewPlanner(preemption.Options{
		Newest:        func(pod *v1.Pod) (*v1.Pod, error) { return pod, nil },
		NominatedNode: s.cache.NominatedNode,
		Budgets:       func() ([]*policyv1.PodDisruptionBudget, error) { return budgets.List(labels.Everything()) },
		Offset:        func(int32) int32 { return 0 },
		Clock:         clock.RealClock{},
	})}
}

// Plan remembers what there is to choose from.
func (r *dryRunPreemptor) Plan(ctx context.Context, request framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	var err error
	if r.candidates, err = r.Candidates(ctx, request); err != nil {
		return nil, err
	}
	return r.Choose(r.candidates), nil
}

// CarryOut remembers the plan.
func (r *dryRunPreemptor) Execute(_ context.Context, _ fwk.Handle, plan *framework.PreemptionPlan) {
	r.plan = plan
}

// UnderWay is false: nothing ever is.
func (r *dryRunPreemptor) InProgress(types.UID) bool { return false }

// makeRoom asks the PostFilter plugins when nothing fits, and keeps what they
// promise the pod until it has a node.
func (s *Scheduler) runPostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, err error) Outcome {
	outcome := Outcome{Err: err}
	var unfit *framework.FitError
	if !s.options.Preempt || !errors.As(err, &unfit) || !s.framework.HasPostFilterPlugins() {
		return outcome
	}
	s.preemptor.plan, s.preemptor.candidates = nil, nil
	result, status := s.framework.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	unfit.Diagnosis.PostFilterMsg = status.Message()
	var promise *fwk.NominatingInfo
	if result != nil {
		promise = result.NominatingInfo
	}
	s.cache.AddNominatedPod(klog.Background(), s.info, promise)
	if promise.Mode() == fwk.ModeOverride {
		outcome.Nominated = promise.NominatedNodeName
	}
	outcome.Plan, outcome.Candidates = s.preemptor.plan, s.preemptor.candidates
	return outcome
}
