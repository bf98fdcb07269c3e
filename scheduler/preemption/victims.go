package preemption

import (
	"iter"
	"sort"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// victim is a pod that may be evicted, or the pods of a group that are evicted together or
// not at all.
type victim struct {
	fwk.PodInfo
	// others are the other pods of such a group; nil for a pod.
	others   []fwk.PodInfo
	priority int32
	start    time.Time
	// inGroup says that a PodGroup has the pods. Where importance is equal otherwise, pods of
	// groups stay.
	inGroup bool
	// violations is how many of the pods budgets protect.
	violations int
}

// pods returns the pods of the victim.
func (v *victim) pods() iter.Seq[fwk.PodInfo] {
	return func(yield func(fwk.PodInfo) bool) {
		if !yield(v.PodInfo) {
			return
		}
		for _, other := range v.others {
			if !yield(other) {
				return
			}
		}
	}
}

// victimSearch finds the victims on nodes, one node after the other.
type victimSearch struct {
	groups *podgroups.Store
	nodes  fwk.NodeInfoLister
	// below is the priority of the preemptor: victims have a lower one.
	below int32
	// now is when pods that have not started count as started. kube-scheduler reads the clock
	// for each such pod, so that the one looked at first is the older one: looked keeps that
	// order also when the clock stands still.
	now    time.Time
	looked time.Duration
	// seen are the groups of which a pod was met.
	seen map[podgroups.Key]bool
}

// on returns the victims on a node. A group that is evicted as a whole is a victim once.
func (s *victimSearch) on(node fwk.NodeInfo) []*victim {
	var all []victim // one allocation, because there are many nodes
	pods := node.GetPods()
	for i, info := range pods {
		pod := framework.OriginalPod(info)
		s.looked++
		priority, disruption, inGroup := s.priorityOf(pod)
		if priority >= s.below {
			continue
		}
		v := victim{PodInfo: info, priority: priority, inGroup: inGroup, start: startTime(pod, s.now.Add(s.looked))}
		if disruption.Together && !s.addOthers(&v, pod) {
			continue
		}
		if all == nil {
			all = make([]victim, 0, len(pods)-i)
		}
		all = append(all, v)
	}
	found := make([]*victim, len(all))
	for i := range all {
		found[i] = &all[i]
	}
	return found
}

func (s *victimSearch) priorityOf(pod *v1.Pod) (priority int32, d podgroups.Disruption, inGroup bool) {
	if pod.Spec.SchedulingGroup == nil || s.groups == nil {
		return corev1.PodPriority(pod), d, false
	}
	d, known := s.groups.DisruptionOf(pod)
	if !known {
		return corev1.PodPriority(pod), d, true
	}
	return d.Priority, d, true
}

// addOthers adds the other pods of a group to the victim of its first pod that is met. It
// returns false for a group that is a victim already. Pods that the snapshot does not have on
// a node are left out.
func (s *victimSearch) addOthers(v *victim, first *v1.Pod) bool {
	key, _ := podgroups.KeyOf(first)
	if s.seen[key] {
		return false
	}
	if s.seen == nil {
		s.seen = map[podgroups.Key]bool{}
	}
	s.seen[key] = true
	for _, pod := range s.groups.Group(key).Scheduled {
		if pod.UID == first.UID {
			continue
		}
		node, err := s.nodes.Get(pod.Spec.NodeName)
		if err != nil {
			continue
		}
		for _, info := range node.GetPods() {
			if framework.OriginalPod(info).UID == pod.UID {
				v.others = append(v.others, info)
				s.looked++
				if start := startTime(pod, s.now.Add(s.looked)); start.Before(v.start) {
					v.start = start
				}
			}
		}
	}
	return true
}

// startTime returns when a pod started; now for one that has not.
func startTime(pod *v1.Pod, now time.Time) time.Time {
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return now
}

// sortByImportance sorts the most important victims to the front: higher priority, pods of
// groups, more pods, then the longer run. It uses sort.Slice, as kube-scheduler does, because
// the order of equal victims decides which of them are evicted.
func sortByImportance(victims []*victim) {
	sort.Slice(victims, func(i, j int) bool {
		a, b := victims[i], victims[j]
		switch {
		case a.priority != b.priority:
			return a.priority > b.priority
		case a.inGroup != b.inGroup:
			return a.inGroup
		case len(a.others) != len(b.others):
			return len(a.others) > len(b.others)
		}
		return a.start.Before(b.start)
	})
}

// podsOf returns the pods of victims, in order.
func podsOf(victims []*victim) (pods []*v1.Pod) {
	for _, v := range victims {
		for info := range v.pods() {
			pods = append(pods, info.GetPod())
		}
	}
	return pods
}

// groupsOf returns how many victims are groups, or pods of groups.
func groupsOf(victims []*victim) (n int) {
	for _, v := range victims {
		if v.inGroup {
			n++
		}
	}
	return n
}

// violationsOf returns how many pods of victims budgets protect.
func violationsOf(victims []*victim) (n int) {
	for _, v := range victims {
		n += v.violations
	}
	return n
}
