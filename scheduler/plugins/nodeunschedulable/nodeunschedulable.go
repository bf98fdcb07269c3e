// Package nodeunschedulable keeps pods off cordoned nodes, but for those that
// tolerate the taint a cordon stands for.
package nodeunschedulable

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
	Name = "NodeUnschedulable"

	reasonUnschedulable = "node(s) were unschedulable"
)

// Plugin looks at spec.unschedulable of nodes.
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
	return framework.Reads{Pod: framework.PodTolerations, Filter: framework.NodeUnschedulable}
}

// SignPod signs the pod with its tolerations.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.TolerationsSignerName, Value: fwk.TolerationsSigner(pod)}}, nil
}

// EventsToRegister asks for nodes that are new or uncordoned, and for new
// tolerations of the pod.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeTaint},
			QueueingHintFn: isSchedulableAfterNodeChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodToleration},
			QueueingHintFn: isSchedulableAfterPodTolerationChange,
		},
	}, nil
}

// afterNode queues the pod when a node is new and open, or was just opened.
func isSchedulableAfterNodeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	wasClosed := before == nil || before.Spec.Unschedulable
	if wasClosed && !after.Spec.Unschedulable {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterToleration queues the pod when it tolerates cordons now. It did not
// before, or it would not have been refused.
func isSchedulableAfterPodTolerationChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil || toleratesUnschedulableTaint(after) {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// PreFilter has nothing to prepare.
func (*Plugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter refuses a cordoned node.
func (*Plugin) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if !node.Node().Spec.Unschedulable || toleratesUnschedulableTaint(pod) {
		return nil
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUnschedulable)
}

func toleratesUnschedulableTaint(pod *v1.Pod) bool {
	return framework.Tolerates(pod.Spec.Tolerations,
		&v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
}
