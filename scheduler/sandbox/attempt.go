package sandbox

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
)

// Outcome is the result of an attempt.
type Outcome struct {
	// Placement is the selected node; nil, with Err set, if there is none. Its scores
	// are valid until the next attempt.
	Placement *cycle.Placement
	// Err is a *framework.FitError if the pod fits on no node.
	Err error
	// Nominated is the node for which a PostFilter plugin nominated the pod.
	Nominated string
	// Plan are the victims of that preemption, Candidates the plans that it was chosen
	// from. Both are nil without preemption.
	Plan       *framework.PreemptionPlan
	Candidates []*framework.PreemptionPlan
}

// RunPreEnqueuePlugins returns the PreEnqueue plugin that rejects the pod, with its status;
// the plugin is "" if none does.
func (s *Scheduler) RunPreEnqueuePlugins(ctx context.Context, pod *v1.Pod) (plugin string, status *fwk.Status) {
	return s.framework.RunPreEnqueuePlugins(ctx, pod, "", nil)
}

// UpdateSnapshot makes all changes so far visible to plugins.
func (s *Scheduler) UpdateSnapshot() { s.cluster.cache.UpdateSnapshot() }

// Attempt runs the scheduling cycle for the pod, up to the selected node. It returns an
// error for a pod that uses a field which this build does not support, and which the
// queue would hold.
func (s *Scheduler) Attempt(ctx context.Context, pod *v1.Pod) Outcome {
	if err := s.checkSupported(pod); err != nil {
		return Outcome{Err: err}
	}
	placement, err := s.runCycle(ctx, pod)
	if mismatches := s.equivalenceCache.Stats().Mismatches; mismatches > s.mismatches {
		s.mismatches = mismatches
		return Outcome{Err: errors.New("a verdict of the equivalence cache is wrong")}
	}
	if err != nil {
		return s.runPostFilter(ctx, s.request.State, pod, err)
	}
	return Outcome{Placement: placement}
}

// runCycle runs the scheduling cycle for the pod, up to the selected node.
func (s *Scheduler) runCycle(ctx context.Context, pod *v1.Pod) (*cycle.Placement, error) {
	snapshot := s.cluster.cache.UpdateSnapshot()
	// PodInfo leaves out malformed affinity terms, as in the scheduling loop.
	s.info, _ = s.equivalenceCache.PodInfo(pod)
	s.request = cycle.Request{
		Framework: s.framework, PercentageOfNodesToScore: s.percentageOfNodesToScore,
		Pod: pod, Snapshot: snapshot, State: framework.NewCycleState(), EquivalenceCache: s.equivalenceCache,
	}
	return s.cycle.Run(ctx, s.request)
}

// checkSupported returns an error that names a field of the pod that this build does not
// support.
func (s *Scheduler) checkSupported(pod *v1.Pod) error {
	if s.unsupported == nil {
		return nil
	}
	if field, why := s.unsupported(pod); field != "" {
		return fmt.Errorf("unsupported: %s: %s", field, why)
	}
	return nil
}

// LastRequest is the request of the last Attempt. UpdateSnapshot changes its snapshot.
func (s *Scheduler) LastRequest() cycle.Request { return s.request }

// Assume adds the pod of the last Attempt to node and ends its nomination.
func (s *Scheduler) Assume(pod *v1.Pod, node string) error {
	if err := s.cluster.cache.AssumePod(s.info, node); err != nil {
		return err
	}
	s.cluster.cache.DeleteNominatedPodIfExists(pod)
	return nil
}

// Reserve runs the Reserve plugins for the pod of the last Attempt, so that later pods find
// its resources of the node beside requests taken, such as volumes.
func (s *Scheduler) Reserve(ctx context.Context, pod *v1.Pod, node string) error {
	return s.framework.RunReservePluginsReserve(ctx, s.request.State, pod, node).AsError()
}

// GivenDevices returns the devices that Reserve has allocated for the pod of the last
// Attempt, as framework.DeviceReporter does.
func (s *Scheduler) GivenDevices(pod *v1.Pod) []string {
	return s.framework.GivenDevices(s.request.State, pod)
}

// EvaluateAllNodes runs every plugin for every node, where an attempt may run some for some
// nodes. It changes nothing. The error names a field of the pod that this build does not
// support, or a plugin that failed.
func (s *Scheduler) EvaluateAllNodes(ctx context.Context, pod *v1.Pod) (*cycle.Matrix, error) {
	if err := s.checkSupported(pod); err != nil {
		return nil, err
	}
	return cycle.EvaluateAllNodes(ctx, cycle.Request{
		Framework: s.framework, PercentageOfNodesToScore: s.percentageOfNodesToScore,
		Pod: pod, Snapshot: s.cluster.cache.UpdateSnapshot(), State: framework.NewCycleState(),
	})
}
