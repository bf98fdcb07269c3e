// Package nodename places a pod that names its node on that node.
package nodename

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "NodeName"

	reasonOtherNode = "node(s) didn't match the requested node name"
)

// Plugin compares spec.nodeName with the name of the node.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin         = (*Plugin)(nil)
	_ fwk.FilterPlugin            = (*Plugin)(nil)
	_ fwk.EnqueueExtensions       = (*Plugin)(nil)
	_ fwk.SignPlugin              = (*Plugin)(nil)
	_ framework.ReadsDeclarer     = (*Plugin)(nil)
	_ framework.PermanentRejecter = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodNodeName, Filter: framework.NodeName}
}

// SignPod signs the pod with the node that it names.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.NodeNameSignerName, Value: pod.Spec.NodeName}}, nil
}

// EventsToRegister registers added nodes, since one of them may have the name.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
	}, nil
}

// PreFilter narrows the search to the named node, so that no other node is evaluated
// and preemption considers no other node.
func (*Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(pod.Spec.NodeName)}, nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects all nodes but the named one.
func (*Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Node().Name {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonOtherNode)
}

// RejectsPermanently reports whether Filter rejects the node: the names of nodes do not
// change.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return !p.Filter(context.Background(), state, pod, node).IsSuccess()
}

var _ podclass.BatchFilterPlugin = (*Plugin)(nil)

// BatchFilter skips Filter for pods that name no node. For other pods it returns ok
// false.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, _ *counts.Columns) (podclass.BatchFilter, bool) {
	return nil, pod.Spec.NodeName == ""
}
