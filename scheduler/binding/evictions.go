package binding

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/cache"
)

// evictions are the plans that are being carried out. They belong to no
// generation: a profile that is swapped goes on where the old one was.
type evictions struct {
	cache *cache.Cache

	mu sync.Mutex
	// underWay is by preemptor.
	underWay map[types.UID]*eviction
	// told are the victims, by UID, that were told to go and are still there.
	// Another plan may name them again; they are not told twice.
	told map[types.UID]told
}

// told is a victim that was told to go.
type told struct {
	pod *v1.Pod
	// inMemory says that its way to a node was cut short: it may come again,
	// in another version, as somebody else's victim.
	inMemory bool
}

// eviction is one plan that is being carried out.
type eviction struct {
	// last is the victim that is told to go when all others have been; nil
	// before that.
	last *v1.Pod
}

func newEvictions(c *cache.Cache) *evictions {
	return &evictions{cache: c, underWay: map[types.UID]*eviction{}, told: map[types.UID]told{}}
}

// Evicting says whether victims of the pod with this UID are still being told
// to go. Once the last one is known to leave, they are not, even if whoever
// told it does not know yet: the event of its leaving comes once, and must not
// find the preemptor's door shut.
func (b *Binding) Evicting(uid types.UID) bool {
	e := b.evictions
	e.mu.Lock()
	defer e.mu.Unlock()
	under, ok := e.underWay[uid]
	return ok && (under.last == nil || !e.leaves(under.last))
}

// leaves says whether a victim is gone from its node, or about to go.
func (e *evictions) leaves(victim *v1.Pod) bool {
	placed := e.cache.Pod(victim.UID)
	return placed == nil || placed.DeletionTimestamp != nil
}

// begin notes that victims of a pod are being evicted.
func (e *evictions) begin(preemptor types.UID) *eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.underWay[preemptor] = &eviction{}
	return e.underWay[preemptor]
}

// turnTo notes that the last victim is about to be told to go.
func (e *evictions) turnTo(under *eviction, last *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	under.last = last
}

// end forgets what begin noted, unless a newer eviction has taken its place.
func (e *evictions) end(preemptor types.UID, under *eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underWay[preemptor] == under {
		delete(e.underWay, preemptor)
	}
}

// claim says whether the victim is still to be told to go, and notes that it
// now is. Those who were told and have gone are forgotten.
func (e *evictions) claim(victim *v1.Pod) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for uid, t := range e.told {
		if e.leaves(t.pod) || t.inMemory && e.cache.Pod(uid) != t.pod {
			delete(e.told, uid)
		}
	}
	if _, is := e.told[victim.UID]; is || e.leaves(victim) {
		return false
	}
	e.told[victim.UID] = told{pod: victim}
	return true
}

// claimed notes what became of a claim: whether the victim was told at all,
// and whether in memory only.
func (e *evictions) claimed(victim *v1.Pod, was, inMemory bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.told, victim.UID)
	if was {
		e.told[victim.UID] = told{pod: victim, inMemory: inMemory}
	}
}
