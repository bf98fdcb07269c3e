package queue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Places says where every pod is. A pod whose next place is being decided is
// reported where it was last; one that is new has none yet.
func (q *Queue) Places() map[types.UID]Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := make(map[types.UID]Place, len(q.pods))
	for uid, p := range q.pods {
		places[uid] = p.where
	}
	return places
}

// Kept is how much the log of events holds: markers of pods whose next place
// is not decided yet, and events kept for them. Both are 0 at rest.
func (q *Queue) Kept() (markers, events int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flights.markers, q.flights.log.Len() - q.flights.markers
}

// Check says what is wrong with the queue's own books, nil when they balance:
// every pod is where it says it is, every heap is in order, every marker in
// the log has its pod.
func (q *Queue) Check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid, p := range q.pods {
		if err := q.checkPod(uid, p); err != nil {
			return fmt.Errorf("pod %s/%s, %s: %w", p.pod.Namespace, p.pod.Name, p.where, err)
		}
	}
	for _, l := range q.lanes {
		for name, h := range map[string]*podHeap{"active": l.active, "refusals": l.refusals, "errors": l.errors} {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("lane %s, heap %s: %w", l.sort, name, err)
			}
		}
		for name, h := range l.slow {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("lane %s, pods of %s that stand back: %w", l.sort, name, err)
			}
		}
	}
	if err := q.checkHeap(q.asides); err != nil {
		return fmt.Errorf("pods set aside: %w", err)
	}
	return q.checkLog()
}

func (q *Queue) checkPod(uid types.UID, p *Pod) error {
	switch {
	case uid != p.pod.UID:
		return fmt.Errorf("is kept under the UID %s, has %s", uid, p.pod.UID)
	case p.gone:
		return fmt.Errorf("is kept, but gone")
	case p.flight != nil && p.heap != nil:
		return fmt.Errorf("is in a heap while its next place is being decided")
	case p.flight != nil:
		return nil
	}
	if dormant, indexed := p.where == Unschedulable || p.where == Gated, p.dorm != nil; dormant != indexed {
		return fmt.Errorf("in the index of dormant pods: %v, want %v", indexed, dormant)
	}
	if p.heap == q.asides {
		if p.where != Parked || p.held.Reason != SetAside {
			return fmt.Errorf("is among the pods that are set aside")
		}
		return nil
	}
	if p.by != q.rules[p.profile] && p.where != Parked {
		return nil // a swap has not come to it yet
	}
	var heaps []*podHeap
	for _, l := range q.lanes {
		if rules := q.rules[p.profile]; rules == nil || l.sort != rules.Sort {
			continue
		}
		switch p.where {
		case Active:
			heaps = append(heaps, l.active)
			if h := l.slow[p.profile]; h != nil {
				heaps = append(heaps, h)
			}
		case Backoff:
			heaps = append(heaps, l.refusals, l.errors)
		}
	}
	if len(heaps) == 0 && p.heap == nil && p.where != Active && p.where != Backoff && p.where != "" {
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
			return fmt.Errorf("pod %s/%s at %d believes to be at %d", p.pod.Namespace, p.pod.Name, i, p.index)
		case q.pods[p.pod.UID] != p:
			return fmt.Errorf("pod %s/%s is not kept", p.pod.Namespace, p.pod.Name)
		case i > 0 && h.less(p, h.pods[(i-1)/2]):
			return fmt.Errorf("pod %s/%s stands behind one that it goes before", p.pod.Namespace, p.pod.Name)
		}
	}
	return nil
}

func (q *Queue) checkLog() error {
	markers := 0
	for e := q.flights.log.Front(); e != nil; e = e.Next() {
		p, isMarker := e.Value.(*Pod)
		switch {
		case isMarker && p.flight != e:
			return fmt.Errorf("log: a marker that pod %s/%s does not know", p.pod.Namespace, p.pod.Name)
		case isMarker:
			markers++
		case markers == 0:
			return fmt.Errorf("log: an event that nobody waits for")
		}
	}
	if markers != q.flights.markers {
		return fmt.Errorf("log: %d markers, counted %d", markers, q.flights.markers)
	}
	return nil
}
