// Package nodeunschedulable rejects cordoned nodes, except for pods that tolerate the
// taint node.kubernetes.io/unschedulable.
package nodeunschedulable

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

const (
	// Name is the name of the plugin in profiles.
	Name = "NodeUnschedulable"

	reasonUnschedulable = "node(s) were unschedulable"
)

// Plugin reads spec.unschedulable of nodes.
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
	return framework.Reads{Pod: framework.PodTolerations, Filter: framework.NodeUnschedulable}
}

// SignPod signs the pod with its tolerations.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	return []fwk.SignFragment{{Key: fwk.TolerationsSignerName, Value: fwk.TolerationsSigner(pod)}}, nil
}

// EventsToRegister registers nodes that are added or uncordoned, and new tolerations of
// the pod.
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

// isSchedulableAfterNodeChange requeues the pod when a node is added that is not
// cordoned, or when a node is uncordoned.
func isSchedulableAfterNodeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	wasUnschedulable := before == nil || before.Spec.Unschedulable
	if wasUnschedulable && !after.Spec.Unschedulable {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPodTolerationChange requeues the pod when it tolerates cordoned
// nodes now. It did not before, or the plugin would not have rejected it.
func isSchedulableAfterPodTolerationChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil || toleratesUnschedulableTaint(after) {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// PreFilter does nothing.
func (*Plugin) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter rejects a cordoned node.
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

var _ podclass.BatchFilterPlugin = (*Plugin)(nil)

// BatchFilter returns the batch form of Filter for pods of the same class as pod. It
// skips Filter for pods that tolerate cordoned nodes.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchFilter, bool) {
	if toleratesUnschedulableTaint(pod) {
		return nil, true
	}
	return batchFilter{columns}, true
}

// batchFilter is the batch form of Filter.
type batchFilter struct{ columns *counts.Columns }

const cordoned podclass.RejectionCode = 1

// Idle reports that no node is cordoned.
func (f batchFilter) Idle() bool { return !f.columns.HasCordonedNodes() }

// Filter writes the verdict of each slot to codes.
func (f batchFilter) Filter(slots []counts.Slot, codes []podclass.RejectionCode) {
	for i, slot := range slots {
		codes[i] = podclass.NotRejected
		if f.columns.Rows[slot].Cordoned {
			codes[i] = cordoned
		}
	}
}

func (batchFilter) Status(podclass.RejectionCode) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUnschedulable).WithPlugin(Name)
}
