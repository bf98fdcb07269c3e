// Package nodedeclaredfeatures rejects nodes that do not declare the features that a
// pod's spec uses.
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
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "NodeDeclaredFeatures"

	reasonMissingFeatures = "node(s) didn't match Pod's required features"

	preFilterStateKey fwk.StateKey = Name + "/filter"
)

// kubernetesVersion is the version of kube-scheduler whose decisions the plugin makes.
// Later versions no longer require nodes to declare some features.
var kubernetesVersion = version.MustParseSemantic("1.37.1")

// Plugin compares the features of nodes with those that pods require.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
	_ podclass.PodKeyer           = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
func (*Plugin) Reads() framework.Reads { return framework.Reads{Filter: framework.NodeFeatures} }

// AppendPodKey appends the features that the pod requires, as component-helpers infers
// them.
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

// SignPod signs the pod with the features that it requires.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	features, err := requiredFeatures(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	return []fwk.SignFragment{{Key: fwk.FeaturesSignerName, Value: features.String()}}, nil
}

// EventsToRegister registers nodes that are added or change their declared features,
// and updates of the pod.
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

// isSchedulableAfterNodeChange requeues the pod when the node is new or changed its
// declared features.
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

// isSchedulableAfterTargetPodUpdate requeues the pod when it requires other features
// than before.
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

// requiredFeatures infers the features that a pod requires from its spec. The status of
// a pending pod does not matter.
func requiredFeatures(pod *v1.Pod) (ndf.FeatureSet, error) {
	return ndf.DefaultFramework.InferForPodScheduling(&ndf.PodInfo{Spec: &pod.Spec}, kubernetesVersion)
}

// preFilterState is the set of features that the pod requires.
type preFilterState struct{ ndf.FeatureSet }

// Clone returns the value itself, which never changes.
func (n *preFilterState) Clone() fwk.StateData { return n }

// PreFilter infers the required features. Most pods require none and skip Filter.
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

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node that does not declare a required feature.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	required, err := framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	declared, err := required.IsSubset(node.GetNodeDeclaredFeatures())
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !declared {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonMissingFeatures)
	}
	return nil
}

// RejectsPermanently reports whether Filter rejects the node: its features depend on
// the version and the configuration of its kubelet.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return p.Filter(context.Background(), state, pod, node).IsRejected()
}
