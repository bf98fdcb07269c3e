// Package noderesources keeps pods off nodes without room for what they
// request, and scores nodes by how full they would be (NodeResourcesFit) and
// by how evenly (NodeResourcesBalancedAllocation).
package noderesources

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// FitName is how profiles name Fit.
	FitName = "NodeResourcesFit"

	fitPreFilterStateKey fwk.StateKey = FitName + "/filter"
	fitPreScoreStateKey  fwk.StateKey = FitName + "/score"
)

// Fit is the plugin NodeResourcesFit.
type Fit struct {
	ignored  ignoredResources
	strategy strategy
}

var (
	_ fwk.PreFilterPlugin                    = (*Fit)(nil)
	_ fwk.FilterPlugin                       = (*Fit)(nil)
	_ fwk.PreScorePlugin                     = (*Fit)(nil)
	_ fwk.ScorePlugin                        = (*Fit)(nil)
	_ fwk.EnqueueExtensions                  = (*Fit)(nil)
	_ fwk.SignPlugin                         = (*Fit)(nil)
	_ framework.ReadsDeclarer                = (*Fit)(nil)
	_ framework.InsufficientResourceReporter = (*Fit)(nil)
)

// NewFit builds the plugin from defaulted *configv1.NodeResourcesFitArgs. The
// error says what is wrong with them.
func NewFit(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeResourcesFitArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := ValidateFit(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	return &Fit{ignored: newIgnoredResources(typed), strategy: newStrategy(typed.ScoringStrategy)}, nil
}

// Name returns FitName.
func (*Fit) Name() string { return FitName }

// Reads says what the verdicts depend on.
func (*Fit) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodRequests,
		Filter: framework.NodeAllocatable | framework.NodeRequested | framework.NodePodCount,
		Score:  framework.NodeAllocatable | framework.NodeRequested | framework.NodeScored,
	}
}

// SignPod signs the pod with its requests.
func (*Fit) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return signRequests(pod), nil
}

func signRequests(pod *v1.Pod) []fwk.SignFragment {
	return []fwk.SignFragment{{Key: fwk.ResourcesSignerName, Value: computePodResourceRequest(pod)}}
}

// PreFilter adds up what the pod requests.
func (f *Fit) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write(fitPreFilterStateKey, newPodRequest(pod, f.ignored))
	return nil, nil
}

// PreFilterExtensions is nil: Filter reads the pods on a node from its sums.
func (*Fit) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node that lacks room, with one reason for each resource.
// A resource of which the whole node has too little makes the refusal
// unresolvable: no pod that leaves could help.
func (*Fit) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	wants, err := framework.ReadStateData[*podRequest](state, fitPreFilterStateKey, FitName, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	lack := wants.insufficientResources(node)
	return lack.status()
}

// Shortages says by how much node lacks room.
func (*Fit) InsufficientResources(list []framework.InsufficientResource, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) []framework.InsufficientResource {
	note, err := state.Read(fitPreFilterStateKey)
	wants, ok := note.(*podRequest)
	if err != nil || !ok {
		return list
	}
	return wants.appendShortages(list, node)
}

// PreScore adds up what the pod is scored with.
func (f *Fit) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	state.Write(fitPreScoreStateKey, f.strategy.requestsOf(pod))
	return nil
}

// Score rates the node by its strategy, from 0 to 100.
func (f *Fit) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return f.strategy.score(node, getPreScoreState(state, fitPreScoreStateKey, f.strategy.resources, pod)), nil
}

// ScoreExtensions is nil: the strategies keep to the range by themselves.
func (*Fit) ScoreExtensions() fwk.ScoreExtensions { return nil }
