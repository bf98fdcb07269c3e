package podgroups

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// A Store is the PodGroupManager of plugins. It shows them the groups that are named by
// spec.schedulingGroup.
var _ fwk.PodGroupManager = &Store{}

// PodGroups lists the PodGroups of scheduling.k8s.io.
func (s *Store) PodGroups() fwk.PodGroupLister { return podGroupLister{s} }

// PodGroupStates lists the pods of their groups.
func (s *Store) PodGroupStates() fwk.PodGroupStateLister { return podGroupStateLister{s} }

// CompositePodGroups returns an empty lister, as without the feature gate CompositePodGroup.
func (s *Store) CompositePodGroups() fwk.CompositePodGroupLister { return noCompositePodGroups{} }

// CompositePodGroupStates returns an empty lister, like CompositePodGroups.
func (s *Store) CompositePodGroupStates() fwk.CompositePodGroupStateLister {
	return noCompositePodGroupStates{}
}

// errNoHierarchies says that groups of groups do not exist.
var errNoHierarchies = errors.New("the feature gate CompositePodGroup is off")

// BuildHierarchySnapshotFromPod returns an error: without the feature gate
// CompositePodGroup there are no hierarchies.
func (s *Store) BuildHierarchySnapshotFromPod(*v1.Pod) (fwk.PodGroupManager, error) {
	return nil, errNoHierarchies
}

// GetRootKeyForGroup returns an error, like BuildHierarchySnapshotFromPod.
func (s *Store) GetRootKeyForGroup(fwk.EntityKey) (fwk.EntityKey, bool, error) {
	return fwk.EntityKey{}, false, errNoHierarchies
}

type podGroupLister struct{ store *Store }

func (l podGroupLister) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	l.store.mu.RLock()
	defer l.store.mu.RUnlock()
	group := l.store.groups[Key{Native, namespace, name}]
	if group == nil || group.podGroup == nil {
		return nil, notFound(namespace, name)
	}
	return group.podGroup, nil
}

type podGroupStateLister struct{ store *Store }

func (l podGroupStateLister) Get(namespace, name string) (fwk.PodGroupState, error) {
	key := Key{Native, namespace, name}
	l.store.mu.RLock()
	known := l.store.groups[key] != nil
	l.store.mu.RUnlock()
	if !known {
		return nil, notFound(namespace, name)
	}
	return podGroupState{l.store.Group(key)}, nil
}

// podGroupState is a Group as plugins see it.
type podGroupState struct{ group *Group }

func (s podGroupState) AllPods() sets.Set[types.UID] {
	all := s.AssignedPods().Union(s.group.Assumed)
	for _, pod := range s.group.Unscheduled {
		all.Insert(pod.UID)
	}
	return all
}

func (s podGroupState) AllPodsCount() int                   { return s.group.All }
func (s podGroupState) UnscheduledPods() map[string]*v1.Pod { return s.group.Unscheduled }
func (s podGroupState) AssumedPods() sets.Set[types.UID]    { return s.group.Assumed }
func (s podGroupState) ScheduledPods() []*v1.Pod            { return s.group.Scheduled }
func (s podGroupState) ScheduledPodsCount() int             { return len(s.group.Scheduled) }

func (s podGroupState) AssignedPods() sets.Set[types.UID] {
	assigned := sets.New[types.UID]()
	for _, pod := range s.group.Scheduled {
		if !s.group.Assumed.Has(pod.UID) {
			assigned.Insert(pod.UID)
		}
	}
	return assigned
}

type noCompositePodGroups struct{}

func (noCompositePodGroups) Get(namespace, name string) (*schedulingv1alpha3.CompositePodGroup, error) {
	return nil, notFound(namespace, name)
}

type noCompositePodGroupStates struct{}

func (noCompositePodGroupStates) Get(namespace, name string) (fwk.CompositePodGroupState, error) {
	return nil, notFound(namespace, name)
}

func notFound(namespace, name string) error {
	return fmt.Errorf("pod group %s/%s: %w", namespace, name, fwk.ErrNotFound)
}
