// Package nodename keeps a pod that names its node to that node.
package nodename

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "NodeName"

	reasonOtherNode = "node(s) didn't match the requested node name"
)

// Plugin compares spec.nodeName with the node.
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

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodNodeName, Filter: framework.NodeName}
}

// SignPod signs the pod with the node it names.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.NodeNameSignerName, Value: pod.Spec.NodeName}}, nil
}

// EventsToRegister asks for new nodes, one of which may have the name.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
	}, nil
}

// PreFilter narrows the search to the named node, so that no other one is
// asked or emptied by preemption.
func (*Plugin) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Spec.NodeName == "" {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(pod.Spec.NodeName)}, nil
}

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses every node but the named one.
func (*Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Spec.NodeName == "" || pod.Spec.NodeName == node.Node().Name {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonOtherNode)
}

// Excludes reports whether Filter refuses the node: labels and names do not
// change while a pod waits.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) bool {
	return !p.Filter(context.Background(), state, pod, node).IsSuccess()
}
