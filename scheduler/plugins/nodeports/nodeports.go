// Package nodeports keeps a pod off nodes where another one has a host port
// that it wants.
package nodeports

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// Name is how profiles name the plugin.
	Name = "NodePorts"

	reasonPortsInUse = "node(s) didn't have free ports for the requested pod ports"

	preFilterStateKey fwk.StateKey = Name + "/filter"
)

// Plugin compares host ports.
type Plugin struct{}

var (
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
	_ framework.ReadsDeclarer = (*Plugin)(nil)
)

// New returns the plugin; it takes no arguments.
func New(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return &Plugin{}, nil }

// Name returns Name.
func (*Plugin) Name() string { return Name }

// Reads says what the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodPorts, Filter: framework.NodePorts}
}

// SignPod signs the pod with its host ports.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.HostPortsSignerName, Value: fwk.HostPortsSigner(pod)}}, nil
}

// EventsToRegister asks for pods that go and for new nodes.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: isSchedulableAfterPodDeleted,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
	}, nil
}

// afterPodDeleted queues the pod when the other one was on a node, or had a
// node promised, and their ports conflict.
func isSchedulableAfterPodDeleted(_ klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	deleted, _, err := framework.EventObjects[*v1.Pod](oldObj, nil)
	if err != nil {
		return fwk.Queue, err
	}
	if deleted.Spec.NodeName == "" && deleted.Status.NominatedNodeName == "" {
		return fwk.QueueSkip, nil
	}
	freed := fwk.HostPortInfo{}
	for port := range framework.HostPorts(deleted) {
		freed.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
	if hostPortsOf(pod).conflictsWith(freed) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// ports are those that a pod wants of its node.
type hostPorts []*v1.ContainerPort

func hostPortsOf(pod *v1.Pod) hostPorts {
	var wanted hostPorts
	for port := range framework.HostPorts(pod) {
		wanted = append(wanted, port)
	}
	return wanted
}

// Clone returns the same value: nothing changes it.
func (p hostPorts) Clone() fwk.StateData { return p }

// conflict reports whether one of p is in taken.
func (p hostPorts) conflictsWith(taken fwk.HostPortInfo) bool {
	for _, port := range p {
		if taken.CheckConflict(port.HostIP, string(port.Protocol), port.HostPort) {
			return true
		}
	}
	return false
}

// PreFilter collects the pod's host ports; most pods have none and skip Filter.
func (*Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	wanted := hostPortsOf(pod)
	if len(wanted) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, wanted)
	return nil, nil
}

// PreFilterExtensions is nil: Filter reads the ports of other pods from the node.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a node on which a wanted port is taken.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	wanted, err := framework.ReadStateData[hostPorts](state, preFilterStateKey, Name, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	if wanted.conflictsWith(node.GetUsedPorts()) {
		return fwk.NewStatus(fwk.Unschedulable, reasonPortsInUse)
	}
	return nil
}
