package podgroups

import (
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CoschedulingResource is the PodGroup of kubernetes-sigs/scheduler-plugins.
var CoschedulingResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// FromCoscheduling converts a PodGroup of kubernetes-sigs/scheduler-plugins: its
// spec.minMember is the number of pods that are scheduled together, 1 where it has none. Its
// spec.minResources and spec.scheduleTimeoutSeconds have no meaning here: a group is tried as
// a whole, against the nodes as they are.
func FromCoscheduling(object *unstructured.Unstructured) *schedulingv1beta1.PodGroup {
	minMember, found, err := unstructured.NestedInt64(object.Object, "spec", "minMember")
	if err != nil || !found || minMember < 1 {
		minMember = 1
	}
	podGroup := newGang(object.GetNamespace(), object.GetName(), int32(min(minMember, 1<<31-1)), nil)
	podGroup.TypeMeta = metav1.TypeMeta{APIVersion: CoschedulingResource.GroupVersion().String(), Kind: "PodGroup"}
	podGroup.UID, podGroup.ResourceVersion, podGroup.Generation = object.GetUID(), object.GetResourceVersion(), object.GetGeneration()
	return podGroup
}
