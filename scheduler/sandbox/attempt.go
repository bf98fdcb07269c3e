package sandbox

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Outcome is how an attempt ended.
type Outcome struct {
	// Placement is where the pod goes; nil, and Err says why, when it goes
	// nowhere. Its scores are good until the next attempt.
	Placement *cycle.Placement
	// Err is a *framework.FitError when the pod fits on no node.
	Err error
	// Nominated is the node where a PostFilter plugin promised the pod room.
	Nominated string
	// Plan is who would have to leave for that, Candidates are the plans that it
	// was chosen from. Both are nil where nobody was asked to leave.
	Plan       *framework.PreemptionPlan
	Candidates []*framework.PreemptionPlan
}

// Gated asks the PreEnqueue plugins, which keep a pod from being tried at all.
// The plugin is "" where none does.
func (s *Scheduler) RunPreEnqueuePlugins(ctx context.Context, pod *v1.Pod) (plugin string, status *fwk.Status) {
	return s.framework.RunPreEnqueuePlugins(ctx, pod, "", nil)
}

// Refresh lets the changes so far take effect.
func (s *Scheduler) UpdateSnapshot() error {
	s.cache.UpdateSnapshot()
	return nil
}

// Attempt goes the loop's way from the pod to the chosen node. A pod that the
// queue would hold, since it asks for what this build cannot honour, is
// refused.
func (s *Scheduler) Attempt(ctx context.Context, pod *v1.Pod) Outcome {
	if field, why := s.unsupported(pod); field != "" {
		return Outcome{Err: fmt.Errorf("unsupported: %s: %s", field, why)}
	}
	snapshot := s.cache.UpdateSnapshot()
	// A malformed affinity term is left out, as in the loop.
	s.info, _ = s.equivalenceCache.PodInfo(pod)
	s.request = cycle.Request{
		Framework:                s.framework,
		PercentageOfNodesToScore: s.options.Blueprint.PercentageOfNodesToScore,
		Pod:                      pod,
		Snapshot:                 snapshot,
		State:                    framework.NewCycleState(),
		EquivalenceCache:         s.equivalenceCache,
	}
	placement, err := s.cycle.Run(ctx, s.request)
	if wrong := s.equivalenceCache.Stats().Mismatches; wrong > s.mismatches {
		s.mismatches = wrong
		return Outcome{Err: errors.New("what was remembered is wrong")}
	}
	if err != nil {
		return s.runPostFilter(ctx, s.request.State, pod, err)
	}
	return Outcome{Placement: placement}
}

// Last is the request of the last Attempt, on the snapshot that Refresh moves.
func (s *Scheduler) LastRequest() cycle.Request { return s.request }

// Assume counts the pod of the last Attempt in on node; a nomination of it
// ends.
func (s *Scheduler) Assume(pod *v1.Pod, node string) error {
	if err := s.cache.AssumePod(s.info, node); err != nil {
		return err
	}
	s.cache.DeleteNominatedPodIfExists(pod)
	return nil
}

// Reserve has the plugins claim what the pod of the last Attempt takes on the node
// beside its room there, such as volumes: pods that are tried later find it taken.
func (s *Scheduler) Reserve(ctx context.Context, pod *v1.Pod, node string) error {
	if fault.ReservedForgotten {
		return nil
	}
	return s.framework.RunReservePluginsReserve(ctx, s.request.State, pod, node).AsError()
}

// backed says whether a DeviceClass among the objects backs an extended
// resource.
func (s *Scheduler) backedByDeviceClass(resource string) bool {
	classes, _ := s.Factory.Resource().V1().DeviceClasses().Lister().List(labels.Everything())
	for _, class := range classes {
		if name := class.Spec.ExtendedResourceName; name != nil && *name == resource {
			return true
		}
	}
	return false
}

// Everywhere asks every plugin about every node, as an attempt would ask about
// some. It is a question: nothing comes of it. The error says what the pod asks
// for that this build cannot honour, or which plugin failed.
func (s *Scheduler) EvaluateAllNodes(ctx context.Context, pod *v1.Pod) (*cycle.Matrix, error) {
	if field, why := s.unsupported(pod); field != "" {
		return nil, fmt.Errorf("unsupported: %s: %s", field, why)
	}
	return cycle.EvaluateAllNodes(ctx, cycle.Request{
		Framework: s.framework, PercentageOfNodesToScore: s.options.Blueprint.PercentageOfNodesToScore,
		Pod: pod, Snapshot: s.cache.UpdateSnapshot(), State: framework.NewCycleState(),
	})
}
