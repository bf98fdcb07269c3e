package binding

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/fault"
)

// evictions are the plans that are being carried out. They belong to no
// generation: a profile that is swapped goes on where the old one was.
type evictions struct {
	mu sync.Mutex
	// underWay is by preemptor.
	inProgress map[types.UID]*eviction
	// told are the victims, by UID, that were told to go and are still there.
	// Another plan may name them again; they are not told twice.
	victims map[types.UID]claimedVictim
	// after is what goes on when a victim that is being told has been.
	waiters map[types.UID][]func()
}

// claim is what a plan may do about one of its victims.
type claim int

const (
	// claimGranted leaves it to the plan to tell the victim.
	claimGranted claim = iota
	// claimNeedless says that nobody need tell the victim any more.
	claimNotNeeded
	// claimWaits says that another plan is telling the victim right now.
	claimWaits
)

// told is a victim that was told to go.
type claimedVictim struct {
	pod *v1.Pod
	// pending says that it is being told right now.
	pending bool
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

func newEvictions() *evictions {
	return &evictions{inProgress: map[types.UID]*eviction{}, victims: map[types.UID]claimedVictim{}, waiters: map[types.UID][]func(){}}
}

// Evicting says whether victims of the pod with this UID are still being told
// to go. Once the last one is known to leave, they are not, even if whoever
// told it does not know yet: the event of its leaving comes once, and must not
// find the preemptor's door shut.
func (b *Binding) Evicting(uid types.UID) bool {
	begun, last := b.evictions.lookUp(uid)
	return begun && (last == nil || !b.isLeaving(last)) && !fault.TriedWhileVictimsAreTold
}

// stands says whether a victim counts on its node.
func (b *Binding) isOnNode(victim *v1.Pod) bool {
	placed := b.options.Cache.Pod(victim.UID)
	return placed != nil && placed.Spec.NodeName == victim.Spec.NodeName
}

// leaves says whether a victim is gone from its node, or about to go.
func (b *Binding) isLeaving(victim *v1.Pod) bool {
	placed := b.options.Cache.Pod(victim.UID)
	return placed == nil || placed.DeletionTimestamp != nil || placed.Spec.NodeName != victim.Spec.NodeName
}

// claim says whether the victim is still to be told to go, and notes that it
// now is. Those who were told and have gone are forgotten. Where another plan is
// telling it, again is called when that has ended.
func (b *Binding) claim(victim *v1.Pod, again func()) claim {
	for _, t := range b.evictions.cloneVictims() {
		if b.claimExpired(t) {
			b.evictions.forget(t)
		}
	}
	if b.isLeaving(victim) {
		return claimNotNeeded
	}
	return b.evictions.claim(victim, again)
}

// over says whether what was told is of no account any more. A deletion names
// the pod and no node: one that somebody else bound meanwhile goes all the same.
func (b *Binding) claimExpired(t claimedVictim) bool {
	placed := b.options.Cache.Pod(t.pod.UID)
	switch {
	case fault.MovedVictimForgotten && b.isLeaving(t.pod):
		return true
	case t.pending:
		return false
	case t.inMemory:
		return placed != t.pod
	}
	return placed == nil || placed.DeletionTimestamp != nil
}

// begin notes that victims of a pod are being evicted.
func (e *evictions) begin(preemptor types.UID) *eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inProgress[preemptor] = &eviction{}
	return e.inProgress[preemptor]
}

// of says whether victims of a pod are being evicted, and which is the last
// one, if it is that one's turn.
func (e *evictions) lookUp(preemptor types.UID) (begun bool, last *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if under, ok := e.inProgress[preemptor]; ok {
		return true, under.last
	}
	return false, nil
}

// turnTo notes that the last victim is about to be told to go.
func (e *evictions) setLast(under *eviction, last *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	under.last = last
}

// end forgets what begin noted, unless a newer eviction has taken its place.
func (e *evictions) end(preemptor types.UID, under *eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.inProgress[preemptor] == under {
		delete(e.inProgress, preemptor)
	}
}

func (e *evictions) cloneVictims() map[types.UID]claimedVictim {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.victims)
}

// forget drops what was noted of a victim, unless it was noted anew.
func (e *evictions) forget(t claimedVictim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.victims[t.pod.UID] == t {
		delete(e.victims, t.pod.UID)
	}
}

// claim notes that a victim is being told, or what is to go on once it has been.
func (e *evictions) claim(victim *v1.Pod, again func()) claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch was, ok := e.victims[victim.UID]; {
	case !ok || fault.VictimToldTwice:
		e.victims[victim.UID] = claimedVictim{pod: victim, pending: true}
		return claimGranted
	case was.pending && !fault.SharedVictimNotAwaited:
		e.waiters[victim.UID] = append(e.waiters[victim.UID], again)
		return claimWaits
	}
	return claimNotNeeded
}

// claimed notes what became of a claim: whether the victim was told at all,
// and whether in memory only.
func (e *evictions) resolveClaim(victim *v1.Pod, was, inMemory bool) {
	e.mu.Lock()
	delete(e.victims, victim.UID)
	if was {
		e.victims[victim.UID] = claimedVictim{pod: victim, inMemory: inMemory}
	}
	after := e.waiters[victim.UID]
	delete(e.waiters, victim.UID)
	e.mu.Unlock()
	for _, again := range after {
		again()
	}
}
