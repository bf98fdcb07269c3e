// Package nodedeclaredfeatures keeps a pod off nodes that do not declare the
// features its spec makes use of.
package nodedeclaredfeatures

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "NodeDeclaredFeatures"

	reasonMissingFeatures = "node(s) didn't match Pod's required features"

	preFilterStateKey fwk.StateKey = Name + "/filter"
)

// target is the version of Kubernetes whose decisions are made here: later
// ones take some features for granted.
var kubernetesVersion = version.MustParseSemantic("1.37.1")

// Plugin compares features.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
	_ framework.PodKeyer          = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
func (*Plugin) Reads() framework.Reads { return framework.Reads{Filter: framework.NodeFeatures} }

// AppendPodKey appends the features that the pod needs, which the library knows
// how to infer.
func (*Plugin) AppendPodKey(key []byte, pod *v1.Pod) []byte {
	features, err := requiredFeatures(pod)
	switch {
	case err != nil:
		return append(append(append(key, 2), err.Error()...), 0)
	case features.IsEmpty():
		return append(key, 0)
	}
	return append(append(append(key, 1), features.String()...), 0)
}

// SignPod signs the pod with the features it needs.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	features, err := requiredFeatures(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return []fwk.SignFragment{{Key: fwk.FeaturesSignerName, Value: features.String()}}, nil
}

// EventsToRegister asks for nodes that are new or declare other features, and
// for changes to the pod.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeDeclaredFeature},
			QueueingHintFn: isSchedulableAfterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update},
			QueueingHintFn: isSchedulableAfterTargetPodUpdate,
		},
	}, nil
}

// afterNode queues the pod when the node is new or declares something else.
func isSchedulableAfterNodeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before != nil && slices.Equal(before.Status.DeclaredFeatures, after.Status.DeclaredFeatures) {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

// afterPod queues the pod when it needs other features than before.
func isSchedulableAfterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	needed, err := requiredFeatures(before)
	if err != nil {
		return fwk.Queue, err
	}
	needs, err := requiredFeatures(after)
	if err != nil || !needs.Equal(needed) {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// featuresOf infers what a pod needs from its spec; nothing in the status of a
// waiting pod matters.
func requiredFeatures(pod *v1.Pod) (ndf.FeatureSet, error) {
	return ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, kubernetesVersion)
}

// needs is what the pod needs of its node.
type preFilterState struct{ ndf.FeatureSet }

// Clone returns the same value: nothing changes it.
func (n *preFilterState) Clone() fwk.StateData { return n }

// PreFilter infers what the pod needs; most pods need nothing and skip Filter.
func (*Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	features, err := requiredFeatures(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if features.IsEmpty() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, &preFilterState{features})
	return nil, nil
}

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node that lacks a needed feature.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	wanted, err := framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	has, err := wanted.IsSubset(node.GetNodeDeclaredFeatures())
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !has {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonMissingFeatures)
	}
	return nil
}

// Excludes reports whether Filter refuses the node: which features a node
// declares depends on its kubelet's version and configuration.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return p.Filter(context.Background(), state, pod, node).IsRejected()
}
