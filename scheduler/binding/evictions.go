package binding

import (
	"maps"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// evictions holds the plans that are being carried out. It belongs to no Generation:
// after a profile swap the evictions of the old one continue.
type evictions struct {
	mu sync.Mutex
	// inProgress holds the evictions by UID of the preemptor, or of each pod of the group that
	// preempts.
	inProgress map[types.UID]*eviction
	// victims are the pods, by UID, that were evicted and still exist. Another
	// plan that names one of them does not evict it again.
	victims map[types.UID]claimedVictim
	// waiters are called when the eviction of a victim has ended, by its UID.
	waiters map[types.UID][]func()
}

// claim says whether a plan is to evict one of its victims.
type claim int

const (
	// claimGranted: the plan evicts the victim.
	claimGranted claim = iota
	// claimNotNeeded: the victim is terminating, gone, evicted, or pending again.
	claimNotNeeded
	// claimWaits: another plan is evicting the victim right now.
	claimWaits
)

// claimedVictim is a pod that a plan evicts or has evicted.
type claimedVictim struct {
	pod *v1.Pod
	// pending says that it is being evicted right now.
	pending bool
	// inMemory says that its binding cycle was stopped. The pod may be a victim
	// again later, in another version.
	inMemory bool
}

// eviction is one plan that is being carried out.
type eviction struct {
	plan *framework.PreemptionPlan
	// last is the last victim, once all others have been evicted; nil before.
	last *v1.Pod
}

func newEvictions() *evictions {
	return &evictions{inProgress: map[types.UID]*eviction{}, victims: map[types.UID]claimedVictim{}, waiters: map[types.UID][]func(){}}
}

// Evicting reports whether victims of the preemptor with this UID are still being
// evicted. It returns false as soon as the last victim is known to terminate, before
// the eviction has ended: the event of its deletion comes once, and must find a
// preemptor that can be requeued.
func (b *Binding) Evicting(uid types.UID) bool { return b.EvictionFor(uid) != nil }

// EvictionFor returns the plan whose victims are still being evicted for the preemptor with
// this UID; nil where Evicting is false.
func (b *Binding) EvictionFor(uid types.UID) *framework.PreemptionPlan {
	plan, last := b.evictions.lookUp(uid)
	if plan == nil || last != nil && b.isLeaving(last) {
		return nil
	}
	return plan
}

// isOnNode reports whether a victim is on its node, and does not only count there.
func (b *Binding) isOnNode(victim *v1.Pod) bool {
	cached := b.options.Cache.Evictable(victim.UID)
	return cached != nil && cached.Spec.NodeName == victim.Spec.NodeName
}

// isLeaving reports whether a victim is terminating or not on its node any more. A pod that was
// chosen, has failed to bind and only counts there now would be deleted for nothing.
func (b *Binding) isLeaving(victim *v1.Pod) bool {
	cached := b.options.Cache.Evictable(victim.UID)
	return cached == nil || cached.DeletionTimestamp != nil || cached.Spec.NodeName != victim.Spec.NodeName
}

// claim returns what the plan is to do about victim; when it is granted, the claim is
// recorded. It forgets victims that have gone. When another plan is evicting the
// victim, again is called when that has ended.
func (b *Binding) claim(victim *v1.Pod, again func()) claim {
	for _, v := range b.evictions.cloneVictims() {
		if b.claimExpired(v) {
			b.evictions.forget(v)
		}
	}
	if b.isLeaving(victim) {
		return claimNotNeeded
	}
	return b.evictions.claim(victim, again)
}

// claimExpired reports whether a claim is out of date. A deletion names the pod and
// no node, so that it also covers a victim that another scheduler has bound to
// another node meanwhile.
func (b *Binding) claimExpired(v claimedVictim) bool {
	cached := b.options.Cache.Pod(v.pod.UID)
	switch {
	case v.pending:
		return false
	case v.inMemory:
		return cached != v.pod
	}
	return cached == nil || cached.DeletionTimestamp != nil
}

// begin records that the plan's victims are being evicted.
func (e *evictions) begin(plan *framework.PreemptionPlan) *eviction {
	e.mu.Lock()
	defer e.mu.Unlock()
	begun := &eviction{plan: plan}
	for _, pod := range plan.Preemptors() {
		e.inProgress[pod.UID] = begun
	}
	return begun
}

// lookUp returns the plan whose victims are being evicted for a pod, nil for none, and the
// last victim, if only that one is left.
func (e *evictions) lookUp(preemptor types.UID) (plan *framework.PreemptionPlan, last *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if current, ok := e.inProgress[preemptor]; ok {
		return current.plan, current.last
	}
	return nil, nil
}

// setLast records the last victim before it is evicted.
func (e *evictions) setLast(current *eviction, last *v1.Pod) {
	e.mu.Lock()
	defer e.mu.Unlock()
	current.last = last
}

// end removes what begin recorded, unless a newer eviction has replaced it.
func (e *evictions) end(preemptors []*v1.Pod, current *eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, pod := range preemptors {
		if e.inProgress[pod.UID] == current {
			delete(e.inProgress, pod.UID)
		}
	}
}

// cloneVictims returns a copy of victims.
func (e *evictions) cloneVictims() map[types.UID]claimedVictim {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.victims)
}

// forget removes a claim, unless it was replaced.
func (e *evictions) forget(v claimedVictim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.victims[v.pod.UID] == v {
		delete(e.victims, v.pod.UID)
	}
}

// claim records a claim of victim, or again as its waiter.
func (e *evictions) claim(victim *v1.Pod, again func()) claim {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch was, ok := e.victims[victim.UID]; {
	case !ok:
		e.victims[victim.UID] = claimedVictim{pod: victim, pending: true}
		return claimGranted
	case was.pending:
		e.waiters[victim.UID] = append(e.waiters[victim.UID], again)
		return claimWaits
	}
	return claimNotNeeded
}

// resolveClaim records whether victim was evicted, and whether in memory only, and
// calls those that waited for it.
func (e *evictions) resolveClaim(victim *v1.Pod, evicted, inMemory bool) {
	e.mu.Lock()
	delete(e.victims, victim.UID)
	if evicted {
		e.victims[victim.UID] = claimedVictim{pod: victim, inMemory: inMemory}
	}
	waiters := e.waiters[victim.UID]
	delete(e.waiters, victim.UID)
	e.mu.Unlock()
	for _, again := range waiters {
		again()
	}
}
