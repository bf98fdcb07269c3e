package queue

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// Check verifies the invariants of the queue: every pod is in the place that it
// claims, every heap is in order and every marker in the in-flight log belongs to
// a pod. It returns the first violation, nil when there is none.
func (q *Queue) Check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid, p := range q.pods {
		if err := q.checkPod(uid, p); err != nil {
			return fmt.Errorf("pod %s/%s, %s: %w", p.pod.Namespace, p.pod.Name, p.place, err)
		}
	}
	for key, group := range q.podGroups {
		if err := q.checkGroup(key, group); err != nil {
			return fmt.Errorf("group %s, %s: %w", key, group.place, err)
		}
	}
	for _, l := range q.subQueues {
		for name, h := range map[string]*podHeap{"active": l.active, "backoff": l.backoff, "errorBackoff": l.errorBackoff} {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("sub-queue %s, heap %s: %w", l.sort, name, err)
			}
		}
		for name, h := range l.throttled {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("sub-queue %s, throttled pods of %s: %w", l.sort, name, err)
			}
		}
	}
	if err := q.checkHeap(q.quarantined); err != nil {
		return fmt.Errorf("quarantined pods: %w", err)
	}
	return q.checkInFlight()
}

func (q *Queue) checkPod(uid types.UID, p *Entity) error {
	switch {
	case uid != p.pod.UID:
		return fmt.Errorf("is stored under the UID %s, has %s", uid, p.pod.UID)
	case p.gone:
		return fmt.Errorf("is stored, but marked as gone")
	case p.memberOf != nil:
		if p.place != Grouped || p.heap != nil || p.group != nil || p.marker != nil {
			return fmt.Errorf("is a member of a group and has a place of its own")
		}
		return nil
	}
	return q.checkPlace(p)
}

// checkGroup checks a group and that its members know it.
func (q *Queue) checkGroup(key podgroups.Key, group *Entity) error {
	g := group.podGroup
	if g.key != key || group.gone {
		return fmt.Errorf("is stored under the key of another, or marked as gone")
	}
	if len(g.members) == 0 && group.place != InFlight {
		return fmt.Errorf("has no members")
	}
	if !slices.IsSortedFunc(g.members, compareMembers) {
		return fmt.Errorf("has members that are not in order")
	}
	for _, p := range slices.Concat(g.members, g.arrived) {
		if p.memberOf != group || q.pods[p.pod.UID] != p {
			return fmt.Errorf("has member %s, which is not stored or a member of another group", p.pod.Name)
		}
	}
	return q.checkPlace(group)
}

// checkPlace checks that a pod or group is in the heap or index of its place.
func (q *Queue) checkPlace(p *Entity) error {
	switch {
	case p.marker != nil && p.heap != nil:
		return fmt.Errorf("is in a heap while it is being requeued")
	case p.marker != nil:
		return nil
	}
	if unschedulable, indexed := p.place == Unschedulable || p.place == Gated, p.group != nil; unschedulable != indexed {
		return fmt.Errorf("in the index of unschedulable pods: %v, want %v", indexed, unschedulable)
	}
	if p.heap == q.quarantined {
		if p.place != Held || p.held.Reason != Quarantined {
			return fmt.Errorf("is in the heap of quarantined pods")
		}
		return nil
	}
	if p.rules != q.rules[p.profile] && p.place != Held {
		return nil // a swap has not visited it yet
	}
	var heaps []*podHeap
	for _, l := range q.subQueues {
		if rules := q.rules[p.profile]; rules == nil || l.sort != rules.Sort {
			continue
		}
		switch p.place {
		case Active:
			heaps = append(heaps, l.active)
			if h := l.throttled[p.profile]; h != nil {
				heaps = append(heaps, h)
			}
		case Backoff:
			heaps = append(heaps, l.backoff, l.errorBackoff)
		}
	}
	if len(heaps) == 0 && p.heap == nil && p.place != Active && p.place != Backoff && p.place != "" {
		return nil
	}
	for _, h := range heaps {
		if p.heap == h {
			return nil
		}
	}
	return fmt.Errorf("is in the wrong heap, or in none")
}

func (q *Queue) checkHeap(h *podHeap) error {
	for i, p := range h.pods {
		switch {
		case p.heap != h || p.index != i:
			return fmt.Errorf("pod %s/%s at index %d has index %d", p.pod.Namespace, p.pod.Name, i, p.index)
		case p.podGroup == nil && q.pods[p.pod.UID] != p, p.podGroup != nil && q.podGroups[p.podGroup.key] != p:
			return fmt.Errorf("pod %s/%s is not stored", p.pod.Namespace, p.pod.Name)
		case i > 0 && h.less(p, h.pods[(i-1)/2]):
			return fmt.Errorf("pod %s/%s is below one that it precedes", p.pod.Namespace, p.pod.Name)
		}
	}
	return nil
}

func (q *Queue) checkInFlight() error {
	markers := 0
	for e := q.inFlight.entries.Front(); e != nil; e = e.Next() {
		p, isMarker := e.Value.(*Entity)
		switch {
		case isMarker && p.marker != e:
			return fmt.Errorf("in-flight log: marker of pod %s/%s, which has another", p.pod.Namespace, p.pod.Name)
		case isMarker:
			markers++
		case markers == 0:
			return fmt.Errorf("in-flight log: event before the first marker")
		}
	}
	if markers != q.inFlight.markers {
		return fmt.Errorf("in-flight log: %d markers, counted %d", markers, q.inFlight.markers)
	}
	return nil
}
