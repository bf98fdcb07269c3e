package eventhandlers

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// propertyChange is one way in which an object can differ from its older version,
// and the action that plugins register for it.
type propertyChange[T any] struct {
	action  fwk.ActionType
	differs func(oldObj, newObj T) bool
}

// podProperties are the changes of a pod that plugins can register for.
// Source: k8s.io/kubernetes/pkg/scheduler/framework, PodSchedulingPropertiesChange.
var podProperties = []propertyChange[*v1.Pod]{
	{fwk.UpdatePodLabel, func(a, b *v1.Pod) bool { return !maps.Equal(a.Labels, b.Labels) }},
	{fwk.UpdatePodScaleDown, func(a, b *v1.Pod) bool { return requestsMore(a, b) }},
	{fwk.UpdatePodScaleUp, func(a, b *v1.Pod) bool { return requestsMore(b, a) }},
	{fwk.UpdatePodSchedulingGatesEliminated, func(a, b *v1.Pod) bool {
		return len(a.Spec.SchedulingGates) > 0 && len(b.Spec.SchedulingGates) == 0
	}},
	// The API server allows tolerations only to be added.
	{fwk.UpdatePodToleration, func(a, b *v1.Pod) bool { return len(a.Spec.Tolerations) != len(b.Spec.Tolerations) }},
	{fwk.UpdatePodGeneratedResourceClaim, func(a, b *v1.Pod) bool {
		return !equality.Semantic.DeepEqual(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses) ||
			!equality.Semantic.DeepEqual(a.Status.ExtendedResourceClaimStatus, b.Status.ExtendedResourceClaimStatus)
	}},
}

// nodeProperties are the changes of a node that plugins can register for.
// Source: k8s.io/kubernetes/pkg/scheduler/framework, NodeSchedulingPropertiesChange.
var nodeProperties = []propertyChange[*v1.Node]{
	// Only a node that becomes schedulable can make a pod fit.
	{fwk.UpdateNodeTaint, func(a, b *v1.Node) bool { return a.Spec.Unschedulable && !b.Spec.Unschedulable }},
	{fwk.UpdateNodeAllocatable, func(a, b *v1.Node) bool {
		return !equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
	}},
	{fwk.UpdateNodeLabel, func(a, b *v1.Node) bool { return !maps.Equal(a.Labels, b.Labels) }},
	{fwk.UpdateNodeTaint, func(a, b *v1.Node) bool { return !equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) }},
	{fwk.UpdateNodeCondition, func(a, b *v1.Node) bool { return !maps.Equal(conditionStatuses(a), conditionStatuses(b)) }},
	{fwk.UpdateNodeAnnotation, func(a, b *v1.Node) bool { return !maps.Equal(a.Annotations, b.Annotations) }},
	{fwk.UpdateNodePreemptionPolicy, func(a, b *v1.Node) bool {
		return !equality.Semantic.DeepEqual(a.Spec.PodPreemptionPolicy, b.Spec.PodPreemptionPolicy)
	}},
	{fwk.UpdateNodeDeclaredFeature, func(a, b *v1.Node) bool {
		return !slices.Equal(a.Status.DeclaredFeatures, b.Status.DeclaredFeatures)
	}},
}

// podEvents returns the events for an update of a pod. An update that no plugin
// can register for is a plain Update.
func podEvents(oldPod, newPod *v1.Pod, kind fwk.EventResource) []fwk.ClusterEvent {
	changes := changedProperties(podProperties, kind, oldPod, newPod)
	if len(changes) == 0 {
		changes = []fwk.ClusterEvent{{Resource: kind, ActionType: fwk.Update}}
	}
	return changes
}

// nodeEvents returns the events for an update of a node; none for a heartbeat.
func nodeEvents(oldNode, newNode *v1.Node) []fwk.ClusterEvent {
	return changedProperties(nodeProperties, fwk.Node, oldNode, newNode)
}

func changedProperties[T any](changes []propertyChange[T], kind fwk.EventResource, oldObj, newObj T) []fwk.ClusterEvent {
	var events []fwk.ClusterEvent
	for _, c := range changes {
		if c.differs(oldObj, newObj) {
			events = append(events, fwk.ClusterEvent{Resource: kind, ActionType: c.action})
		}
	}
	return events
}

// requestsMore reports whether a requests more than b of any resource.
func requestsMore(a, b *v1.Pod) bool {
	less := framework.ComputePodRequests(b, framework.PodRequestOptions())
	for name, quantity := range framework.ComputePodRequests(a, framework.PodRequestOptions()) {
		other, ok := less[name]
		if !ok || quantity.MilliValue() > other.MilliValue() {
			return true
		}
	}
	return false
}

func conditionStatuses(node *v1.Node) map[v1.NodeConditionType]v1.ConditionStatus {
	status := make(map[v1.NodeConditionType]v1.ConditionStatus, len(node.Status.Conditions))
	for _, c := range node.Status.Conditions {
		status[c.Type] = c.Status
	}
	return status
}
