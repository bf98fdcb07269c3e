package nodeaffinity

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister asks for nodes that are new or change their labels.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel},
		QueueingHintFn: p.isSchedulableAfterNodeChange,
	}}, nil
}

// afterNode queues the pod when the node is selected now and was not before.
// Other than upstream it asks the profile's affinity about both.
func (p *Plugin) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	wants := nodeaffinity.GetRequiredNodeAffinity(pod)
	matches, err := p.matches(wants, after)
	if err != nil {
		return fwk.Queue, err
	}
	if !matches {
		return fwk.QueueSkip, nil
	}
	if before == nil {
		return fwk.Queue, nil
	}
	matched, err := p.matches(wants, before)
	if err != nil || !matched {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// selects reports whether both affinities select node, the pod's and the
// profile's.
func (p *Plugin) matches(wants nodeaffinity.RequiredNodeAffinity, node *v1.Node) (bool, error) {
	if p.addedNodeSelector != nil && !p.addedNodeSelector.Match(node) {
		return false, nil
	}
	return wants.Match(node)
}
