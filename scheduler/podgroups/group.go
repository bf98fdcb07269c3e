package podgroups

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// Group is a copy of what the Store holds of one group.
type Group struct {
	Key Key
	// PodGroup is the group's PodGroup, or one that was made from what its pods say; nil
	// where neither is known. It must not be changed.
	PodGroup *schedulingv1beta1.PodGroup
	// Err says why the pods of the group make no PodGroup.
	Err error
	// All is the number of pods, Scheduled are those that are assumed or assigned, and
	// Assumed are the UIDs of the assumed ones.
	All       int
	Scheduled []*v1.Pod
	Assumed   sets.Set[types.UID]
	// Unscheduled are the others, by name.
	Unscheduled map[string]*v1.Pod
}

// MinCount returns how many pods must be scheduled together; 1 for a group that is no gang,
// as in kube-scheduler.
func (g *Group) MinCount() int {
	if g.PodGroup == nil {
		return 1
	}
	return MinCountOf(g.PodGroup)
}

// MinCountOf is Group.MinCount for a PodGroup.
func MinCountOf(podGroup *schedulingv1beta1.PodGroup) int {
	if gang := podGroup.Spec.SchedulingPolicy.Gang; gang != nil {
		return int(gang.MinCount)
	}
	return 1
}

// IsGang reports whether the group's pods are to be scheduled together.
func (g *Group) IsGang() bool {
	return g.PodGroup != nil && g.PodGroup.Spec.SchedulingPolicy.Gang != nil
}

// Disruption is how preemption treats the pods of a group as victims.
type Disruption struct {
	// Priority is that of the group.
	Priority int32
	// Together says that they are evicted together or not at all.
	Together bool
}

// PriorityOf returns the priority of a PodGroup, 0 where it has none.
func PriorityOf(podGroup *schedulingv1beta1.PodGroup) int32 {
	return ptr.Deref(podGroup.Spec.Priority, 0)
}

// newGang returns a PodGroup that is in no API server.
func newGang(namespace, name string, minCount int32, priority *int32) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: schedulingv1beta1.PodGroupSpec{
			SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}},
			Priority:         priority,
		},
	}
}

// SourceOf returns the source of the groups to which a PodGroup belongs: Coscheduling for one
// that FromCoscheduling made.
func SourceOf(podGroup *schedulingv1beta1.PodGroup) Source {
	if podGroup.GroupVersionKind().Group == CoschedulingResource.Group {
		return Coscheduling
	}
	return Native
}

// KeyOfPodGroup returns the key of the group that a PodGroup describes.
func KeyOfPodGroup(podGroup *schedulingv1beta1.PodGroup) Key {
	return Key{Source: SourceOf(podGroup), Namespace: podGroup.Namespace, Name: podGroup.Name}
}
