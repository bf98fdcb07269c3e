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
		QueueingHintFn: p.afterNode,
	}}, nil
}

// afterNode queues the pod when the node is selected now and was not before.
func (p *Plugin) afterNode(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if p.enforced != nil && !p.enforced.Match(after) {
		return fwk.QueueSkip, nil
	}
	wants := nodeaffinity.GetRequiredNodeAffinity(pod)
	matches, err := wants.Match(after)
	if err != nil {
		return fwk.Queue, err
	}
	if !matches {
		return fwk.QueueSkip, nil
	}
	if before == nil {
		return fwk.Queue, nil
	}
	// Whether the profile's own affinity selected the node before is not
	// asked, upstream as here: such a change reaches the pod with the flush.
	matched, err := wants.Match(before)
	if err != nil || !matched {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}
