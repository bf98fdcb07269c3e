package podgroups

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-helpers/scheduling/corev1"
)

// Store holds the PodGroups and which pods each group has. It is safe for concurrent use.
//
// Its callers report pending pods, before the queue hears of them, and assumed and assigned
// pods. A pod that is in no group is ignored by all methods.
type Store struct {
	mu     sync.RWMutex
	groups map[Key]*state
}

// state is one group. It exists while the group has a PodGroup or pods.
type state struct {
	// podGroup is nil while no PodGroup was seen.
	podGroup *schedulingv1beta1.PodGroup
	pods     map[types.UID]*v1.Pod
	// assumed are the pods that have a node here only, each with that node; assigned have
	// one in the API server. The others are unscheduled.
	assumed  map[types.UID]*v1.Pod
	assigned sets.Set[types.UID]
	// inactive are the unscheduled pods, by UID, that ToActivate has not returned since the
	// last BeginAttempt; nil for all of them. Some of them may have a node or be gone.
	inactive sets.Set[types.UID]
}

// isUnscheduled reports whether a pod of the group has no node.
func (g *state) isUnscheduled(uid types.UID) bool {
	return g.pods[uid] != nil && g.assumed[uid] == nil && !g.assigned.Has(uid)
}

// setInactive stores that a pod has come, or come back.
func (g *state) setInactive(uid types.UID) {
	if g.inactive != nil {
		g.inactive.Insert(uid)
	}
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{groups: map[Key]*state{}} }

// SetPodGroup stores a PodGroup. One of source Coscheduling is converted by the caller.
func (s *Store) SetPodGroup(source Source, podGroup *schedulingv1beta1.PodGroup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.getOrCreate(Key{source, podGroup.Namespace, podGroup.Name}).podGroup = podGroup
}

// RemovePodGroup removes a PodGroup. The group's pods stay.
func (s *Store) RemovePodGroup(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group, ok := s.groups[key]; ok {
		group.podGroup = nil
		s.deleteIfEmpty(key, group)
	}
}

// SetPod stores a version of a pod: as assigned if it has a node, else as pending unless it
// is assumed.
func (s *Store) SetPod(pod *v1.Pod) {
	key, ok := KeyOf(pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.getOrCreate(key)
	if group.pods[pod.UID] == nil {
		group.setInactive(pod.UID)
	}
	group.pods[pod.UID] = pod
	if pod.Spec.NodeName != "" {
		group.assigned.Insert(pod.UID)
		delete(group.assumed, pod.UID)
	}
}

// RemovePod removes a pod that was deleted, or that no profile schedules.
func (s *Store) RemovePod(pod *v1.Pod) {
	key, ok := KeyOf(pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if group, ok := s.groups[key]; ok {
		delete(group.pods, pod.UID)
		delete(group.assumed, pod.UID)
		group.assigned.Delete(pod.UID)
		group.inactive.Delete(pod.UID)
		s.deleteIfEmpty(key, group)
	}
}

// AssumePod stores that a pod has a node, which the given version of it names. A pod that
// was removed meanwhile is ignored.
func (s *Store) AssumePod(pod *v1.Pod) {
	s.updateKnown(pod, func(group *state) {
		if !group.assigned.Has(pod.UID) {
			group.assumed[pod.UID] = pod
		}
	})
}

// ForgetPod stores that a pod is not assumed any more.
func (s *Store) ForgetPod(pod *v1.Pod) {
	s.updateKnown(pod, func(group *state) {
		delete(group.assumed, pod.UID)
		group.setInactive(pod.UID)
	})
}

func (s *Store) updateKnown(pod *v1.Pod, update func(*state)) {
	key, ok := KeyOf(pod)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if group, ok := s.groups[key]; ok && group.pods[pod.UID] != nil {
		update(group)
	}
}

func (s *Store) getOrCreate(key Key) *state {
	group, ok := s.groups[key]
	if !ok {
		group = &state{pods: map[types.UID]*v1.Pod{}, assumed: map[types.UID]*v1.Pod{}, assigned: sets.New[types.UID]()}
		s.groups[key] = group
	}
	return group
}

func (s *Store) deleteIfEmpty(key Key, group *state) {
	if group.podGroup == nil && len(group.pods) == 0 {
		delete(s.groups, key)
	}
}

// Group returns a copy of a group. A group that the Store does not know is empty.
func (s *Store) Group(key Key) *Group {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := &Group{Key: key, Assumed: sets.New[types.UID](), Unscheduled: map[string]*v1.Pod{}}
	known, ok := s.groups[key]
	if !ok {
		return g
	}
	g.PodGroup, g.Err = known.effectivePodGroup(key)
	g.All = len(known.pods)
	for uid, pod := range known.pods {
		switch assumed := known.assumed[uid]; {
		case known.assigned.Has(uid):
			g.Scheduled = append(g.Scheduled, pod)
		case assumed != nil:
			g.Scheduled = append(g.Scheduled, assumed)
			g.Assumed.Insert(uid)
		default:
			g.Unscheduled[pod.Name] = pod
		}
	}
	slices.SortFunc(g.Scheduled, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return g
}

// NativeGroups returns copies of the groups whose PodGroup of scheduling.k8s.io is one for which
// which is true.
func (s *Store) NativeGroups(which func(*schedulingv1beta1.PodGroup) bool) (groups []*Group) {
	s.mu.RLock()
	var keys []Key
	for key, group := range s.groups {
		if key.Source == Native && group.podGroup != nil && which(group.podGroup) {
			keys = append(keys, key)
		}
	}
	s.mu.RUnlock()
	for _, key := range keys {
		groups = append(groups, s.Group(key))
	}
	return groups
}

// Assumed returns the UIDs of the assumed pods of the group that a pod names.
func (s *Store) Assumed(pod *v1.Pod) (uids []types.UID) {
	key, ok := KeyOf(pod)
	if !ok {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if group := s.groups[key]; group != nil {
		uids = slices.Collect(maps.Keys(group.assumed))
	}
	return uids
}

// BoundPods returns the PodGroup of a group, nil for none, how many of its pods have a node in the
// API server, and one of these; nil for none.
func (s *Store) BoundPods(key Key) (podGroup *schedulingv1beta1.PodGroup, bound int, one *v1.Pod) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	group := s.groups[key]
	if group == nil {
		return nil, 0, nil
	}
	for uid := range group.assigned {
		one = group.pods[uid]
		break
	}
	return group.podGroup, group.assigned.Len(), one
}

// BeginAttempt is Group for a group that is about to be tried.
func (s *Store) BeginAttempt(key Key) *Group {
	s.mu.Lock()
	if group := s.groups[key]; group != nil {
		group.inactive = nil
	}
	s.mu.Unlock()
	return s.Group(key)
}

// ToActivate returns, by name, the pods without a node of the group that a pod names, without
// those that it has returned since the last BeginAttempt: each pod of an attempt that waits for
// others at Permit activates them, and once is enough.
func (s *Store) ToActivate(pod *v1.Pod) map[string]*v1.Pod {
	key, ok := KeyOf(pod)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.groups[key]
	if group == nil {
		return nil
	}
	candidates := maps.Keys(group.inactive)
	if group.inactive == nil {
		candidates = maps.Keys(group.pods)
	}
	unscheduled := map[string]*v1.Pod{}
	for uid := range candidates {
		if group.isUnscheduled(uid) {
			unscheduled[group.pods[uid].Name] = group.pods[uid]
		}
	}
	group.inactive = sets.New[types.UID]()
	return unscheduled
}

// Priority returns the priority of a group: its PodGroup's, which is 0 where none is set, or
// that of the pod for a group without a PodGroup of scheduling.k8s.io.
func (s *Store) Priority(key Key, pod *v1.Pod) int32 {
	if key.Source != Native {
		return corev1.PodPriority(pod)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if group := s.groups[key]; group != nil && group.podGroup != nil {
		return PriorityOf(group.podGroup)
	}
	return 0
}

// DisruptionOf returns the disruption of the PodGroup that a pod names in
// spec.schedulingGroup; ok is false where it names none that exists.
func (s *Store) DisruptionOf(pod *v1.Pod) (d Disruption, ok bool) {
	if pod.Spec.SchedulingGroup == nil {
		return d, false // of most victims, without a look at their labels
	}
	key, named := KeyOf(pod)
	if !named || key.Source != Native {
		return d, false
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	group := s.groups[key]
	if group == nil || group.podGroup == nil {
		return d, false
	}
	mode := group.podGroup.Spec.DisruptionMode
	return Disruption{Priority: PriorityOf(group.podGroup), Together: mode != nil && mode.All != nil}, true
}

// effectivePodGroup returns the group's PodGroup. For a group that is not named by
// spec.schedulingGroup it has the priority of the pods, and for one whose pods say how many
// are scheduled together it is made from that.
func (g *state) effectivePodGroup(key Key) (*schedulingv1beta1.PodGroup, error) {
	if key.Source == Native {
		return g.podGroup, nil
	}
	if len(g.pods) == 0 {
		return g.podGroup, nil
	}
	pods := slices.SortedFunc(maps.Values(g.pods), func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	priority := corev1.PodPriority(pods[0])
	if key.Source == Coscheduling {
		if g.podGroup == nil {
			return nil, nil
		}
		podGroup := *g.podGroup
		podGroup.Spec.Priority = &priority
		return &podGroup, nil
	}
	first, _, err := declaredMinCount(key.Source, pods[0])
	if err != nil {
		return nil, err
	}
	for _, pod := range pods[1:] {
		count, _, err := declaredMinCount(key.Source, pod)
		if err != nil {
			return nil, err
		}
		if count != first {
			return nil, differingCountsError(pods[0], pod, first, count)
		}
	}
	return newGang(key.Namespace, key.Name, first, &priority), nil
}
