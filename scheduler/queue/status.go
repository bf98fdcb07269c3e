package queue

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/decision"
)

// Places returns the place of every pod by UID. A pod that is being requeued is
// reported in its last place; a new one that has no place yet has an empty Place.
func (q *Queue) Places() map[types.UID]Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	places := make(map[types.UID]Place, len(q.pods))
	for uid, p := range q.pods {
		places[uid] = p.waiting().place
	}
	return places
}

// HasActive reports whether a pod is ready to be tried. It does not wait for the
// lock: while another goroutine holds it, HasActive returns true.
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

// InFlightCounts returns the size of the in-flight log: markers of pods that have
// no place at the moment, and the events recorded for them. Both are 0 at rest.
func (q *Queue) InFlightCounts() (markers, events int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inFlight.markers, q.inFlight.entries.Len() - q.inFlight.markers
}

// Entry is a copy of what the queue stores of one pod.
type Entry struct {
	Namespace, Name string
	UID             types.UID
	Profile         string
	// Place is where the pod is. A pod that is being requeued is reported in its
	// last place; one that has none yet has an empty Place.
	Place Place
	// Held is the reason of a held pod, Gate the PreEnqueue plugin of a gated one.
	Held Hold
	Gate string
	// Since is when the pod was added or its last attempt ended. Until is when its
	// backoff or its quarantine ends; zero for a pod in neither.
	Since, Until time.Time
	Attempts     int
	Priority     int32
	// Rejectors are the plugins that refused the pod in its last attempt, Pending
	// those that returned Pending.
	Rejectors, Pending []string
}

// entriesPerLock is how many pods Entries copies under one hold of the lock.
const entriesPerLock = 256

// Entries returns a copy of every pod's entry, in no order. The lock is released
// between portions of entriesPerLock pods, so that pods which come or go meanwhile
// may be missing or present.
func (q *Queue) Entries() []Entry {
	q.mu.Lock()
	uids := slices.Collect(maps.Keys(q.pods))
	q.mu.Unlock()
	entries := make([]Entry, 0, len(uids))
	for portion := range slices.Chunk(uids, entriesPerLock) {
		q.mu.Lock()
		for _, uid := range portion {
			if p, known := q.pods[uid]; known {
				entries = append(entries, p.entry())
			}
		}
		q.mu.Unlock()
	}
	return entries
}

// entry returns a copy of what the queue stores of p. The caller holds q.mu.
func (p *Entity) entry() Entry {
	waiting := p.waiting()
	e := Entry{
		Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID, Profile: p.profile, Place: waiting.place,
		Held: p.held, Gate: waiting.gate, Since: p.timestamp, Attempts: p.attempts, Priority: p.GetPriority(),
		Rejectors: sets.List(p.rejectors), Pending: sets.List(p.pending),
	}
	if waiting.place == Backoff {
		e.Until = waiting.backoffUntil
	}
	if waiting.place == Held && p.held.Reason == Quarantined && waiting.faults != nil {
		e.Until = waiting.faults.until
	}
	return e
}

// Counts returns how many pods of the named profile are in each place.
func (q *Queue) Counts(name string) decision.QueueCounts {
	q.mu.Lock()
	defer q.mu.Unlock()
	var c decision.QueueCounts
	for _, p := range q.pods {
		if p.profile != name {
			continue
		}
		switch p.waiting().place {
		case Active:
			c.Active++
		case Backoff:
			c.Backoff++
		case Unschedulable, "":
			c.Unschedulable++
		case Gated:
			c.Gated++
		case Held:
			if p.held.Reason == Quarantined {
				c.Quarantined++
			} else {
				c.Held++
			}
		case InFlight:
			c.InFlight++
		}
	}
	return c
}

// Has reports whether the pod with this UID waits or is in flight.
func (q *Queue) Has(uid types.UID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pods[uid] != nil
}

// IfHas calls do if the pod with this UID waits or is in flight. Meanwhile it is not deleted,
// and do must not call the queue.
func (q *Queue) IfHas(uid types.UID, do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pods[uid] != nil {
		do()
	}
}

// Serves reports whether the queue has rules for the named profile.
func (q *Queue) Serves(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.rules[name] != nil
}
