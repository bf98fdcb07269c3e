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

// dryRunPreemptor plans evictions like the real one and executes none. The search for
// victims always starts at the first node.
type dryRunPreemptor struct {
	*preemption.Planner
	// plan is the last plan that would have been executed, candidates are the plans that
	// it was chosen from.
	plan       *framework.PreemptionPlan
	candidates []*framework.PreemptionPlan
}

var _ framework.Preemptor = &dryRunPreemptor{}

func (s *Scheduler) newDryRunPreemptor() *dryRunPreemptor {
	budgets := s.Factory.Policy().V1().PodDisruptionBudgets().Lister()
	return &dryRunPreemptor{Planner: preemption.NewPlanner(preemption.Options{
		Newest:             func(pod *v1.Pod) (*v1.Pod, error) { return pod, nil },
		NominatedNode:      s.cluster.cache.NominatedNode,
		NominationsVersion: s.cluster.cache.NominationsVersion,
		Budgets:            func() ([]*policyv1.PodDisruptionBudget, error) { return budgets.List(labels.Everything()) },
		Offset:             func(int32) int32 { return 0 },
		Groups:             s.cluster.cache.Groups(),
		Clock:              clock.RealClock{},
	})}
}

// Plan returns the chosen plan and stores the candidates.
func (r *dryRunPreemptor) Plan(ctx context.Context, request framework.PreemptionRequest) (*framework.PreemptionPlan, error) {
	var err error
	if r.candidates, err = r.Candidates(ctx, request); err != nil {
		return nil, err
	}
	return r.Choose(r.candidates), nil
}

// Execute stores the plan.
func (r *dryRunPreemptor) Execute(_ context.Context, _ fwk.Handle, plan *framework.PreemptionPlan) {
	r.plan = plan
}

// InProgress returns false, since no eviction is ever executed.
func (r *dryRunPreemptor) InProgress(types.UID) bool { return false }

// runPostFilter runs the PostFilter plugins if the pod fits on no node, and stores the
// nomination until the pod has a node.
func (s *Scheduler) runPostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, err error) Outcome {
	outcome := Outcome{Err: err}
	var fitErr *framework.FitError
	if !s.options.Preempt || !errors.As(err, &fitErr) || !s.framework.HasPostFilterPlugins() {
		return outcome
	}
	s.preemptor.plan, s.preemptor.candidates = nil, nil
	result, status := s.framework.RunPostFilterPlugins(ctx, state, pod, fitErr.Diagnosis.NodeToStatus)
	fitErr.Diagnosis.PostFilterMsg = status.Message()
	var nomination *fwk.NominatingInfo
	if result != nil {
		nomination = result.NominatingInfo
	}
	s.cluster.cache.AddNominatedPod(klog.Background(), s.info, nomination)
	if nomination.Mode() == fwk.ModeOverride {
		outcome.Nominated = nomination.NominatedNodeName
	}
	outcome.Plan, outcome.Candidates = s.preemptor.plan, s.preemptor.candidates
	return outcome
}
