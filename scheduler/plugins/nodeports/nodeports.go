// Package nodeports rejects nodes where another pod uses a host port that the pod
// requests.
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
	// Name is the name of the plugin in profiles.
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

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Reads declares which fields of pods and nodes the verdict depends on.
func (*Plugin) Reads() framework.Reads {
	return framework.Reads{Pod: framework.PodPorts, Filter: framework.NodePorts}
}

// SignPod signs the pod with its host ports.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.HostPortsSignerName, Value: fwk.HostPortsSigner(pod)}}, nil
}

// EventsToRegister registers deletions of assigned pods and added nodes.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete},
			QueueingHintFn: isSchedulableAfterPodDeleted,
		},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}},
	}, nil
}

// isSchedulableAfterPodDeleted requeues the pod when the deleted pod was assigned to a
// node, or nominated for one, and used a port that the pod requests.
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

// hostPorts are the host ports that a pod requests.
type hostPorts []*v1.ContainerPort

func hostPortsOf(pod *v1.Pod) hostPorts {
	var ports hostPorts
	for port := range framework.HostPorts(pod) {
		ports = append(ports, port)
	}
	return ports
}

// Clone returns the value itself, which never changes.
func (p hostPorts) Clone() fwk.StateData { return p }

// conflictsWith reports whether one of the ports is in use.
func (p hostPorts) conflictsWith(inUse fwk.HostPortInfo) bool {
	for _, port := range p {
		if inUse.CheckConflict(port.HostIP, string(port.Protocol), port.HostPort) {
			return true
		}
	}
	return false
}

// PreFilter collects the pod's host ports. Most pods have none and skip Filter.
func (*Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	ports := hostPortsOf(pod)
	if len(ports) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	state.Write(preFilterStateKey, ports)
	return nil, nil
}

// PreFilterExtensions returns nil: Filter reads the ports of other pods from the
// NodeInfo.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a node on which a requested port is in use.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	ports, err := framework.ReadStateData[hostPorts](state, preFilterStateKey, Name, "PreFilter")
	if err != nil {
		return fwk.AsStatus(err)
	}
	if ports.conflictsWith(node.GetUsedPorts()) {
		return fwk.NewStatus(fwk.Unschedulable, reasonPortsInUse)
	}
	return nil
}
