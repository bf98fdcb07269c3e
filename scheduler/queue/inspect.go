package queue

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Places says where every pod is. A pod whose next place is being decided is
// reported where it was last; one that is new has none yet.
func (q *Queue) Places() map[types.UID]Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := make(map[types.UID]Place, len(q.pods))
	for uid, p := range q.pods {
		places[uid] = p.place
	}
	return places
}

// Due says whether there is a pod to be tried now. It waits for nobody: where
// the queue is being used at this moment, there may be one.
func (q *Queue) HasActive() bool {
	if !q.mu.TryLock() {
		return true
	}
	defer q.mu.Unlock()
	for _, l := range q.subQueues {
		if l.active.Len() > 0 {
			return true
		}
		for _, slow := range l.throttled {
			if slow.Len() > 0 {
				return true
			}
		}
	}
	return false
}

// Kept is how much the log of events holds: markers of pods whose next place
// is not decided yet, and events kept for them. Both are 0 at rest.
func (q *Queue) InFlightCounts() (markers, events int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inFlight.markers, q.inFlight.entries.Len() - q.inFlight.markers
}

// Check says what is wrong with the queue's own books, nil when they balance:
// every pod is where it says it is, every heap is in order, every marker in
// the log has its pod.
func (q *Queue) Check() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for uid, p := range q.pods {
		if err := q.checkPod(uid, p); err != nil {
			return fmt.Errorf("pod %s/%s, %s: %w", p.pod.Namespace, p.pod.Name, p.place, err)
		}
	}
	for _, l := range q.subQueues {
		for name, h := range map[string]*podHeap{"active": l.active, "refusals": l.backoff, "errors": l.errorBackoff} {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("lane %s, heap %s: %w", l.sort, name, err)
			}
		}
		for name, h := range l.throttled {
			if err := q.checkHeap(h); err != nil {
				return fmt.Errorf("lane %s, pods of %s that stand back: %w", l.sort, name, err)
			}
		}
	}
	if err := q.checkHeap(q.quarantined); err != nil {
		return fmt.Errorf("pods set aside: %w", err)
	}
	return q.checkInFlight()
}

func (q *Queue) checkPod(uid types.UID, p *Pod) error {
	switch {
	case uid != p.pod.UID:
		return fmt.Errorf("is kept under the UID %s, has %s", uid, p.pod.UID)
	case p.gone:
		return fmt.Errorf("is kept, but gone")
	case p.marker != nil && p.heap != nil:
		return fmt.Errorf("is in a heap while its next place is being decided")
	case p.marker != nil:
		return nil
	}
	if dormant, indexed := p.place == Unschedulable || p.place == Gated, p.group != nil; dormant != indexed {
		return fmt.Errorf("in the index of dormant pods: %v, want %v", indexed, dormant)
	}
	if p.heap == q.quarantined {
		if p.place != Held || p.held.Reason != Quarantined {
			return fmt.Errorf("is among the pods that are set aside")
		}
		return nil
	}
	if p.rules != q.rules[p.profile] && p.place != Held {
		return nil // a swap has not come to it yet
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
			return fmt.Errorf("pod %s/%s at %d believes to be at %d", p.pod.Namespace, p.pod.Name, i, p.index)
		case q.pods[p.pod.UID] != p:
			return fmt.Errorf("pod %s/%s is not kept", p.pod.Namespace, p.pod.Name)
		case i > 0 && h.less(p, h.pods[(i-1)/2]):
			return fmt.Errorf("pod %s/%s stands behind one that it goes before", p.pod.Namespace, p.pod.Name)
		}
	}
	return nil
}

func (q *Queue) checkInFlight() error {
	markers := 0
	for e := q.inFlight.entries.Front(); e != nil; e = e.Next() {
		p, isMarker := e.Value.(*Pod)
		switch {
		case isMarker && p.marker != e:
			return fmt.Errorf("log: a marker that pod %s/%s does not know", p.pod.Namespace, p.pod.Name)
		case isMarker:
			markers++
		case markers == 0:
			return fmt.Errorf("log: an event that nobody waits for")
		}
	}
	if markers != q.inFlight.markers {
		return fmt.Errorf("log: %d markers, counted %d", markers, q.inFlight.markers)
	}
	return nil
}

// Entry is a pod in the queue and what is remembered of it, as a copy.
type Entry struct {
	Namespace, Name string
	UID             types.UID
	Profile         string
	// Place is where the pod is; empty while it is on its way from one to another.
	Place Place
	// Held is why a parked pod is parked; Gate is the PreEnqueue plugin that keeps
	// a gated one.
	Held Hold
	Gate string
	// Since is when it was put there; Until is when its backoff ends, or it is tried
	// again after having been set aside; zero: neither.
	Since, Until time.Time
	Attempts     int
	Priority     int32
	// Rejectors are the plugins that refused it last, Pending those that it waits
	// for.
	Rejectors, Pending []string
}

// pieceOfPods is how many pods Entries looks at under one hold of the lock.
const entriesPerLock = 256

// Entries returns what the queue holds, in no order: pods that come or go
// meanwhile may be among them or not. The lock is held for a piece at a time.
func (q *Queue) Entries() []Entry {
	q.mu.Lock()
	uids := slices.Collect(maps.Keys(q.pods))
	q.mu.Unlock()
	all := make([]Entry, 0, len(uids))
	for piece := range slices.Chunk(uids, entriesPerLock) {
		q.mu.Lock()
		for _, uid := range piece {
			if p, known := q.pods[uid]; known {
				all = append(all, p.entry())
			}
		}
		q.mu.Unlock()
	}
	return all
}

// entry is a copy of what is known of p. Called with the lock.
func (p *Pod) entry() Entry {
	e := Entry{
		Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID, Profile: p.profile, Place: p.place,
		Held: p.held, Gate: p.gate, Since: p.timestamp, Attempts: p.attempts, Priority: p.GetPriority(),
		Rejectors: sets.List(p.rejectors), Pending: sets.List(p.pending),
	}
	if p.place == Backoff {
		e.Until = p.backoffUntil
	}
	if p.place == Held && p.held.Reason == Quarantined && p.faults != nil {
		e.Until = p.faults.until
	}
	return e
}
