// Package noderesources rejects nodes that do not have enough free resources for a pod,
// and scores nodes by their utilization (NodeResourcesFit) and by how balanced it is
// (NodeResourcesBalancedAllocation).
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
	// FitName is the name of Fit in profiles.
	FitName = "NodeResourcesFit"

	fitPreFilterStateKey fwk.StateKey = FitName + "/filter"
	fitPreScoreStateKey  fwk.StateKey = FitName + "/score"
)

// Fit is the plugin NodeResourcesFit.
type Fit struct {
	ignored  ignoredResources
	classes  deviceClasses
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

// NewFit builds the plugin from defaulted *configv1.NodeResourcesFitArgs. It returns an
// error that lists the invalid fields.
func NewFit(_ context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	typed, ok := args.(*configv1.NodeResourcesFitArgs)
	if !ok {
		return nil, fmt.Errorf("args: is a %T, want a %T", args, typed)
	}
	if errs := ValidateFit(typed, nil); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	classes := deviceClassesOf(handle)
	return &Fit{ignored: newIgnoredResources(typed), classes: classes, strategy: newStrategy(typed.ScoringStrategy, classes)}, nil
}

// Name returns FitName.
func (*Fit) Name() string { return FitName }

// Reads declares which fields of pods and nodes the verdicts depend on. It names no
// devices: a pod that requests them as extended resources belongs to no class.
func (*Fit) Reads() framework.Reads {
	return framework.Reads{
		Pod:    framework.PodRequests,
		Filter: framework.NodeAllocatable | framework.NodeRequested | framework.NodePodCount,
		Score:  framework.NodeAllocatable | framework.NodeRequested | framework.NodeScored,
	}
}

// SignPod signs the pod with its requests.
func (f *Fit) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return f.classes.signRequests(pod)
}

// PreFilter sums up the requests of the pod.
func (f *Fit) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	state.Write(fitPreFilterStateKey, f.newPodRequest(pod))
	return nil, nil
}

// PreFilterExtensions returns nil: Filter reads the requests of other pods from the
// sums in NodeInfo.
func (*Fit) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node that has not enough free resources, with one reason for each
// resource. It is unresolvable by preemption if the request exceeds what is allocatable
// on the node.
func (*Fit) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	request, err := framework.ReadStateData[*podRequest](state, fitPreFilterStateKey, FitName, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	insufficient := request.insufficientResources(node)
	return insufficient.status()
}

// InsufficientResources appends the missing amount of each resource to list.
func (*Fit) InsufficientResources(list []framework.InsufficientResource, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) []framework.InsufficientResource {
	data, err := state.Read(fitPreFilterStateKey)
	request, ok := data.(*podRequest)
	if err != nil || !ok {
		return list
	}
	return request.appendShortages(list, node)
}

// PreScore sums up the requests that the pod is scored with.
func (f *Fit) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	data, err := f.strategy.resources.stateOf(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write(fitPreScoreStateKey, data)
	return nil
}

// Score scores the node by the scoring strategy, from 0 to 100.
func (f *Fit) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := getPreScoreState(state, fitPreScoreStateKey, f.strategy.resources, pod)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return f.strategy.score(ctx, node, data), nil
}

// ScoreExtensions returns nil: all strategies return scores from 0 to 100.
func (*Fit) ScoreExtensions() fwk.ScoreExtensions { return nil }
