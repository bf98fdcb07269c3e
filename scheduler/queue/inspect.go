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
		places[uid] = p.where
	}
	return places
}

// Due says whether there is a pod to be tried now. It waits for nobody: where
// the queue is being used at this moment, there may be one.
func (q *Queue) Due() bool {
	if !q.mu.TryLock() {
		return true
	}
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if l.active.Len() > 0 {
			return true
		}
		for _, slow := range l.slow {
			if slow.Len() > 0 {
				return true
			}
		}
	}
	return false
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
const pieceOfPods = 256

// Entries returns what the queue holds, in no order: pods that come or go
// meanwhile may be among them or not. The lock is held for a piece at a time.
func (q *Queue) Entries() []Entry {
	q.mu.Lock()
	uids := slices.Collect(maps.Keys(q.pods))
	q.mu.Unlock()
	all := make([]Entry, 0, len(uids))
	for piece := range slices.Chunk(uids, pieceOfPods) {
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
		Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID, Profile: p.profile, Place: p.where,
		Held: p.held, Gate: p.gate, Since: p.timestamp, Attempts: p.attempts, Priority: p.GetPriority(),
		Rejectors: sets.List(p.rejectors), Pending: sets.List(p.pending),
	}
	if p.where == Backoff {
		e.Until = p.backoffUntil
	}
	if p.where == Parked && p.held.Reason == SetAside && p.poison != nil {
		e.Until = p.poison.until
	}
	return e
}
