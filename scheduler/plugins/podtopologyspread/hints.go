package podtopologyspread

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers pods that are added, deleted or relabeled, and nodes whose
// domains may change. Unlike upstream it also registers pods that start to terminate,
// since they no longer count, and, if default constraints are hard, the objects whose
// selectors these use.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	events := []fwk.ClusterEventWithHint{
		{
			Event:          fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Add | fwk.UpdatePodLabel | fwk.Delete},
			QueueingHintFn: p.isSchedulableAfterPodChange,
		},
		{
			Event:          fwk.ClusterEvent{Resource: framework.TerminatingPod, ActionType: fwk.Update},
			QueueingHintFn: p.isSchedulableAfterPodTermination,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodToleration | fwk.UpdatePodLabel},
			QueueingHintFn: p.isSchedulableAfterTargetPodUpdate,
		},
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.Delete | fwk.UpdateNodeLabel | fwk.UpdateNodeTaint},
			QueueingHintFn: p.isSchedulableAfterNodeChange,
		},
	}
	if !p.hasHardDefaults() {
		return events, nil
	}
	actions := fwk.Add | fwk.Update | fwk.Delete
	return append(events,
		fwk.ClusterEventWithHint{
			Event: fwk.ClusterEvent{Resource: framework.Service, ActionType: actions}, QueueingHintFn: isSchedulableAfterServiceChange,
		},
		fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: framework.ReplicationController, ActionType: actions},
			QueueingHintFn: isSchedulableAfterControllerChange(replicationControllerKind.Kind),
		},
		fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: framework.ReplicaSet, ActionType: actions},
			QueueingHintFn: isSchedulableAfterControllerChange(replicaSetKind.Kind),
		},
		fwk.ClusterEventWithHint{
			Event:          fwk.ClusterEvent{Resource: framework.StatefulSet, ActionType: actions},
			QueueingHintFn: isSchedulableAfterControllerChange(statefulSetKind.Kind),
		},
	), nil
}

// hasHardDefaults reports whether a default constraint is hard.
func (p *Plugin) hasHardDefaults() bool {
	for i := range p.defaults {
		if p.defaults[i].WhenUnsatisfiable == v1.DoNotSchedule {
			return true
		}
	}
	return false
}

// isSchedulableAfterPodChange requeues the pod when a pod that a constraint counts is
// added or deleted, or starts or stops to be counted.
func (p *Plugin) isSchedulableAfterPodChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	for _, other := range []*v1.Pod{before, after} {
		placed := other == nil || other.Spec.NodeName != "" || other.Status.NominatedNodeName != ""
		if !placed || other != nil && other.Namespace != pod.Namespace {
			return fwk.QueueSkip, nil
		}
	}
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	if before != nil && after != nil {
		return hintForLabelChange(constraints, before, after), nil
	}
	changedPod := after
	if changedPod == nil {
		changedPod = before
	}
	for _, c := range constraints {
		if c.selector.Matches(labels.Set(changedPod.Labels)) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPodTermination requeues the pod when the terminating pod was
// counted.
func (p *Plugin) isSchedulableAfterPodTermination(logger klog.Logger, pod *v1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	return p.isSchedulableAfterPodChange(logger, pod, oldObj, nil)
}

// isSchedulableAfterTargetPodUpdate requeues the pod when new tolerations change which
// nodes count, or when new labels add it to a constraint's selector or remove it.
// Unlike upstream it also requeues the pod when the selectors change: those with
// matchLabelKeys, and those of the services and the controller that select the pod.
func (p *Plugin) isSchedulableAfterTargetPodUpdate(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	was, err := p.constraintsOf(before, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	is, err := p.constraintsOf(after, v1.DoNotSchedule)
	if err != nil || len(was) != len(is) {
		return fwk.Queue, err
	}
	for i, c := range is {
		if c.selector.String() != was[i].selector.String() ||
			c.honorTaints && !equality.Semantic.DeepEqual(before.Spec.Tolerations, after.Spec.Tolerations) {
			return fwk.Queue, nil
		}
	}
	return hintForLabelChange(is, before, after), nil
}

// hintForLabelChange requeues the pod when a constraint selects only one of the two
// versions of the relabeled pod.
func hintForLabelChange(constraints []constraint, before, after *v1.Pod) fwk.QueueingHint {
	if maps.Equal(before.Labels, after.Labels) {
		return fwk.QueueSkip
	}
	for _, c := range constraints {
		if c.selector.Matches(labels.Set(before.Labels)) != c.selector.Matches(labels.Set(after.Labels)) {
			return fwk.Queue
		}
	}
	return fwk.QueueSkip
}

// isSchedulableAfterNodeChange requeues the pod when a node enters, leaves or changes a
// domain, or when its taints change. Unlike upstream it also requeues the pod when its
// node affinity selects only one of the two versions of the node.
func (p *Plugin) isSchedulableAfterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return fwk.Queue, err
	}
	keys := topologyKeys(constraints)
	was, is := before != nil && hasAllLabels(before, keys), after != nil && hasAllLabels(after, keys)
	switch {
	case was != is:
		return fwk.Queue, nil
	case !is:
		return fwk.QueueSkip, nil
	case !equality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints):
		return fwk.Queue, nil
	}
	for _, key := range keys {
		if before.Labels[key] != after.Labels[key] {
			return fwk.Queue, nil
		}
	}
	for _, scope := range scopesOf(pod, constraints, keys) {
		if scope.Includes(before) != scope.Includes(after) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterServiceChange requeues a pod with default constraints when a
// service that selects it is added, deleted or selects other pods.
func isSchedulableAfterServiceChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*v1.Service](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if len(pod.Spec.TopologySpreadConstraints) > 0 {
		return fwk.QueueSkip, nil
	}
	for _, service := range []*v1.Service{before, after} {
		if service != nil && service.Namespace == pod.Namespace && serviceSelects(service, pod) {
			return fwk.Queue, nil
		}
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterControllerChange returns a hint that requeues a pod with default
// constraints when its controller, of the given kind, is added, deleted or selects
// other pods.
func isSchedulableAfterControllerChange(kind string) fwk.QueueingHintFn {
	return func(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		before, after, err := framework.EventObjects[metav1.Object](oldObj, newObj)
		if err != nil {
			return fwk.Queue, err
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil || owner.Kind != kind || len(pod.Spec.TopologySpreadConstraints) > 0 {
			return fwk.QueueSkip, nil
		}
		for _, object := range []metav1.Object{before, after} {
			if object != nil && object.GetNamespace() == pod.Namespace && object.GetName() == owner.Name {
				return fwk.Queue, nil
			}
		}
		return fwk.QueueSkip, nil
	}
}
