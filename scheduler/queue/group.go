package queue

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// podGroup is what an Entity has that is a group of pods. The pods of a group have no places
// of their own: the group waits, and is tried, as one.
type podGroup struct {
	key      podgroups.Key
	priority int32
	// members wait with the group, in the order in which they are tried.
	members []*Entity
	// arrived are pods that came, or came back, while the group was in flight. They are its
	// members once the attempt has ended.
	arrived []*Entity
	// attempted are the pods of the attempt in flight.
	attempted sets.Set[types.UID]
	// gated is the member that a PreEnqueue plugin gates; one is enough to gate the group.
	gated *Entity
	// changed says that the members changed while the group had no place.
	changed bool
	// attemptSize is how many members waited for another attempt when the last one ended: it
	// decides how long the backoff is, whichever pods join or leave meanwhile.
	attemptSize int
	// startsAnew says that the PodGroup was deleted while the group had no place.
	startsAnew bool
}

// groupOf returns the group that a pod belongs to under these rules, which may be nil; ok is
// false for a pod that waits on its own.
func (r *Rules) groupOf(pod *v1.Pod) (key podgroups.Key, ok bool) {
	if r == nil || !r.Groups {
		return key, false
	}
	return podgroups.KeyOf(pod)
}

// pods returns the pods of an entity: the members of a group, or the pod itself.
func (p *Entity) pods() iter.Seq[*Entity] {
	if p.podGroup == nil {
		return func(yield func(*Entity) bool) { yield(p) }
	}
	return slices.Values(p.podGroup.members)
}

// waiting returns the entity in whose place a pod is: its group, or the pod itself.
func (p *Entity) waiting() *Entity {
	if p.memberOf != nil {
		return p.memberOf
	}
	return p
}

// checkedPod is a pod for which requeue calls plugins: a version of it, and the PreEnqueue
// plugin that gated it last.
type checkedPod struct {
	entity   *Entity
	pod      *v1.Pod
	lastGate string
}

// podsToCheck returns the pods of p, the gated one first. The caller holds the queue's lock.
func (p *Entity) podsToCheck() []checkedPod {
	if p.podGroup == nil {
		return []checkedPod{{p, p.pod, p.gate}}
	}
	g := p.podGroup
	pods := make([]checkedPod, 0, len(g.members))
	if g.gated != nil {
		pods = append(pods, checkedPod{g.gated, g.gated.pod, g.gated.gate})
	}
	for _, member := range g.members {
		if member != g.gated {
			pods = append(pods, checkedPod{member, member.pod, ""})
		}
	}
	return pods
}

// podsToWake returns those of pods whose hints decide whether an event requeues them: of a
// gated group only the gated pod, since the group stays gated as long as that one does.
func podsToWake(pods []checkedPod, gate string) []checkedPod {
	if gate != "" {
		return pods[:1]
	}
	return pods
}

// takeChanged reports whether the members of a group changed since the last call.
func (p *Entity) takeChanged() bool {
	if p.podGroup == nil {
		return false
	}
	changed := p.podGroup.changed
	p.podGroup.changed = false
	return changed
}

// setGate stores the PreEnqueue plugin that gates p, "" for none, and which of its pods.
func (p *Entity) setGate(gate string, gated *Entity) {
	p.gate = gate
	if g := p.podGroup; g != nil {
		if g.gated != nil {
			g.gated.gate = ""
		}
		g.gated = gated
	}
	if gate != "" {
		gated.gate = gate
		gated.addRejector(gate)
		p.addRejector(gate)
	}
}

// gatedMember returns the pod of a group that a plugin gates; nil for a pod on its own.
func (p *Entity) gatedMember() *v1.Pod {
	if g := p.podGroup; g != nil && g.gated != nil {
		return g.gated.pod
	}
	return nil
}

// setAdmitted stores that p and its pods passed the holds and gates of the rules with hash.
func (p *Entity) setAdmitted(hash string) {
	p.held, p.admittedBy = Hold{}, hash
	for pod := range p.pods() {
		pod.held, pod.admittedBy = Hold{}, hash
	}
}

// setInitialAttempt stores when p and its pods first became active.
func (p *Entity) setInitialAttempt(now time.Time) {
	if p.initialAttempt == nil {
		p.initialAttempt = &now
	}
	for pod := range p.pods() {
		if pod.initialAttempt == nil {
			pod.initialAttempt = &now
		}
	}
}

// compareMembers orders the members of a group: by priority, the highest first, by attempts,
// the most first, by timestamp and by name.
//
// Source: PodGroupMemberPodsOrderingFunc of k8s.io/kubernetes/pkg/scheduler/framework.
func compareMembers(a, b *Entity) int {
	return cmp.Or(
		cmp.Compare(b.GetPriority(), a.GetPriority()),
		cmp.Compare(b.attempts, a.attempts),
		a.timestamp.Compare(b.timestamp),
		cmp.Compare(a.pod.Name, b.pod.Name),
	)
}

// addMember makes p a member that waits with the group. The caller holds q.mu.
func (q *Queue) addMember(group, p *Entity) {
	g := group.podGroup
	at, _ := slices.BinarySearchFunc(g.members, p, compareMembers)
	g.members = slices.Insert(g.members, at, p)
	group.pod = g.members[0].pod
	g.priority = q.groups.Priority(g.key, group.pod)
	g.changed = true
}

// joinGroup makes p, which has no place, a member of its group, and makes the group where it
// is the first. It returns the group with the strategy to requeue it, nil where it is in
// flight or being requeued already. The caller holds q.mu.
func (q *Queue) joinGroup(p *Entity, key podgroups.Key) (group *Entity, strategy queueingStrategy) {
	q.inFlight.end(p)
	p.place, p.holdOver, p.held = Grouped, p.holdOver || p.held.Reason != "", Hold{}
	group, exists := q.podGroups[key]
	if !exists {
		group = newQueuedPod(p.pod, p.timestamp)
		group.profile, group.rules, group.podGroup = p.profile, p.rules, &podGroup{key: key}
		q.podGroups[key] = group
		q.podsByProfile.add(group)
		q.inFlight.begin(group)
	}
	p.memberOf = group
	if group.place == InFlight {
		group.podGroup.arrived = append(group.podGroup.arrived, p)
		return nil, queueSkip
	}
	q.addMember(group, p)
	if group.place == Gated {
		// The gate of the group is no change for the others.
		q.markGateAfterHold(p)
		q.markSizeChange(group.podGroup)
	}
	switch {
	case !exists:
		return group, queueImmediately
	case group.marker != nil:
		return nil, queueSkip
	}
	strategy = group.placeStrategy()
	q.detach(group)
	return group, strategy
}

// placeStrategy returns how a group is requeued whose members change: to the place where it
// is, if nothing else changed.
func (p *Entity) placeStrategy() queueingStrategy {
	switch p.place {
	case Active, Held:
		return queueImmediately
	case Backoff:
		return queueAfterBackoff
	}
	return queueSkip
}

// leaveGroup ends p's membership. It returns the group with the strategy to requeue it, nil
// where it is gone, in flight or being requeued already. The caller holds q.mu.
func (q *Queue) leaveGroup(p *Entity) (group *Entity, strategy queueingStrategy) {
	group = p.memberOf
	g := group.podGroup
	p.memberOf, p.place = nil, ""
	isP := func(other *Entity) bool { return other == p }
	g.arrived = slices.DeleteFunc(g.arrived, isP)
	g.members = slices.DeleteFunc(g.members, isP)
	strategy = group.placeStrategy()
	if g.gated == p {
		g.gated, strategy = nil, max(strategy, queueRecheck)
		group.recheck = !group.isPlaced() // requeue may have looked for what wakes this pod alone
	} else if group.place == Gated {
		q.markSizeChange(g)
	}
	g.changed = true
	if group.place == InFlight {
		return nil, queueSkip
	}
	if len(g.members) == 0 {
		q.deleteGroup(group)
		return nil, queueSkip
	}
	placed := group.isPlaced()
	if placed {
		q.detach(group)
	}
	q.setFirstMember(group)
	if !placed {
		return nil, queueSkip
	}
	return group, strategy
}

// setFirstMember derives from the first member what a group has from it. A group whose
// members name several profiles, which the scheduling cycle refuses, is in that of the
// first. The group has no place. The caller holds q.mu.
func (q *Queue) setFirstMember(group *Entity) {
	first := group.podGroup.members[0]
	group.pod, group.podGroup.priority = first.pod, q.groups.Priority(group.podGroup.key, first.pod)
	if group.profile != first.profile {
		q.podsByProfile.remove(group)
		group.profile, group.rules = first.profile, nil
		q.podsByProfile.add(group)
	}
}

// deleteGroup removes a group without members. The caller holds q.mu.
func (q *Queue) deleteGroup(group *Entity) {
	q.remove(group)
	q.inFlight.end(group)
	group.gone = true
	delete(q.podGroups, group.podGroup.key)
	q.podsByProfile.remove(group)
	q.cleanUpProfile(group.profile)
}

// dissolveGroup makes the members of a group wait on their own and returns them detached.
// The caller holds q.mu.
func (q *Queue) dissolveGroup(group *Entity) []*Entity {
	members := group.podGroup.members
	for _, p := range members {
		p.memberOf, p.place, p.rules = nil, "", nil
		q.inFlight.begin(p)
	}
	group.podGroup.members = nil
	q.deleteGroup(group)
	return members
}

// regroup takes p, which is being requeued, out of its group, or into one, if the rules want
// it so. It reports whether it did, and returns what has to be requeued instead of p. The
// caller holds q.mu.
func (q *Queue) regroup(p *Entity, rules *Rules) (instead []*Entity, strategy queueingStrategy, regrouped bool) {
	if p.podGroup != nil {
		if rules == nil || rules.Groups {
			return nil, queueSkip, false
		}
		return q.dissolveGroup(p), queueImmediately, true
	}
	key, ok := rules.groupOf(p.pod)
	if !ok {
		return nil, queueSkip, false
	}
	if group, strategy := q.joinGroup(p, key); group != nil {
		return []*Entity{group}, strategy, true
	}
	return nil, queueSkip, true
}

// updateMember is UpdateKnown for a pod that waits with its group; before is its version
// before. It returns what has to be requeued. The caller holds q.mu.
func (q *Queue) updateMember(p *Entity, before *v1.Pod, changes []event) (d detachedEntities) {
	group := p.memberOf
	q.podChanged(p, before, p.pod)
	if key, _ := podgroups.KeyOf(p.pod); key != group.podGroup.key {
		d.add(q.leaveGroup(p))
		q.inFlight.begin(p)
		p.rules = nil
		d.add(p, queueImmediately)
		return d
	}
	group.podGroup.changed = true
	if group.place != InFlight {
		slices.SortFunc(group.podGroup.members, compareMembers) // its priority may be another
		group.pod = group.podGroup.members[0].pod
	}
	switch {
	case !group.isPlaced():
	case group.place == Held:
		d.add(group, queueImmediately)
	case group.place == Unschedulable || group.place == Gated:
		if len(changes) > 0 {
			d.add(group, queueSkip)
		}
	default:
		group.heap.fix(group)
	}
	for _, group := range d.entities {
		q.detach(group)
	}
	if group.marker != nil {
		for _, change := range changes {
			q.inFlight.record(change)
		}
	}
	return d
}

// PodGroupChanged takes in that a PodGroup was added, changed or deleted: its priority
// orders the group. The groups' Store has the new state already.
func (q *Queue) PodGroupChanged(key podgroups.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	group, ok := q.podGroups[key]
	if !ok {
		return
	}
	g := group.podGroup
	g.changed = true
	if group.pod == nil {
		return
	}
	g.priority = q.groups.Priority(key, group.pod)
	if group.heap != nil {
		group.heap.fix(group)
	}
}

// startAnew forgets the attempts of a group.
func (p *Entity) startAnew() {
	p.attempts, p.unschedulableCount, p.consecutiveErrors, p.initialAttempt = 0, 0, 0, nil
	p.podGroup.startsAnew = false
}

// PodGroupDeleted takes in that a PodGroup was deleted. If one of its name comes, the group
// starts anew, as in kube-scheduler.
func (q *Queue) PodGroupDeleted(ctx context.Context, key podgroups.Key) {
	q.PodGroupChanged(key)
	q.mu.Lock()
	group, ok := q.podGroups[key]
	if ok && !group.isPlaced() {
		group.podGroup.startsAnew = true
	}
	if !ok || !group.isPlaced() {
		q.mu.Unlock()
		return
	}
	q.detach(group)
	group.startAnew()
	q.mu.Unlock()
	q.requeueAll(ctx, "PodGroupDelete", constantStrategy(queueImmediately), group)
}
