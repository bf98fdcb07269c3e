package simulation

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/plugins/gangscheduling"
	"github.com/berthdev/berth/scheduler/queue"
)

// permitLimit is how long a pod of a gang waits at Permit at most.
const permitLimit = 5 * time.Minute

// noteChange is called for each write of a pod, with the pod before and after it; nil for none.
func (sim *simulation) noteChange(before, after *v1.Pod) {
	if !sim.hasGangs() {
		return
	}
	if before == nil || after == nil || before.Spec.NodeName != after.Spec.NodeName || isLivePod(before) != isLivePod(after) ||
		before.DeletionTimestamp.Equal(after.DeletionTimestamp) == false || before.Status.NominatedNodeName != after.Status.NominatedNodeName {
		sim.gangs.changedAt = sim.clock.now
	}
	if after == nil {
		if g := sim.gangOf(before); g != nil {
			delete(g.members, before.UID)
			sim.interruptAll(g)
			sim.noteRounds(g)
		}
		return
	}
	g := sim.gangOf(after)
	if g == nil {
		return
	}
	g.members[after.UID] = after
	leaves := after.DeletionTimestamp != nil || !isLivePod(after)
	isBound := after.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == "")
	switch {
	case leaves:
		sim.interruptAll(g)
	case isBound:
		sim.noteBoundMember(g, after)
	}
	if isBound && !g.whole && g.bound() >= g.minCount {
		sim.noteWholeGang(g, after)
	}
	sim.noteRounds(g)
}

// noteBegun notes that the scheduler assumed a member under a spec. It comes before the Permit
// plugins are asked.
func (sim *simulation) noteBegun(pod *v1.Pod, spec int) {
	g := sim.gangOf(pod)
	if g == nil {
		return
	}
	view := sim.viewOf(g)
	if len(view.begun) == 0 && !g.whole {
		sim.count("a gang is assumed")
	}
	if cycle := sim.tasks.current.cycle; cycle > 0 && cycle == view.lostIn {
		sim.interrupt(g) // by a member that was decided in this cycle, too
	}
	view.begun[pod.UID] = true
	delete(view.waitsSince, pod.UID)
	if !sim.specs[spec].gangs {
		view.loose, g.loose = true, g.loose || !sim.isDeposed()
	}
	sim.noteQuorum(g)
}

// noteUndone notes that a member was unreserved.
func (sim *simulation) noteUndone(pod *v1.Pod) {
	if g := sim.gangOf(pod); g != nil {
		sim.interrupt(g)
		delete(sim.viewOf(g).begun, pod.UID)
		sim.noteRounds(g)
	}
}

// noteHandled is called when the handler of pods is about to receive a pod, and when it has
// received a deletion.
func (sim *simulation) noteHandled(pod *v1.Pod, deleted bool) {
	g := sim.gangOf(pod)
	if g == nil {
		return
	}
	if deleted {
		sim.viewOf(g).gone[pod.UID] = true
		sim.interrupt(g)
	}
	sim.noteQuorum(g)
	sim.noteRounds(g)
}

// noteQuorum sets quorum where the scheduler may hold enough members for scheduled: those that
// it assumed under one spec, and those that its handlers have received with a node.
func (sim *simulation) noteQuorum(g *gang) {
	if view := sim.viewOf(g); !view.quorum && sim.scheduledMembers(g) >= g.minCount {
		view.quorum = true
	}
}

// scheduledMembers counts the members that the scheduler holds for assigned, or assumes under
// the spec that has the most of them: those that wait under others are tried again. Under a
// spec without GangScheduling none waits.
func (sim *simulation) scheduledMembers(g *gang) int {
	view, assigned, assumed := sim.viewOf(g), 0, map[int]int{}
	for uid := range view.begun {
		made, _ := sim.lastPlacement(uid)
		switch member := g.members[uid]; {
		case view.gone[uid]:
		case member != nil && member.Spec.NodeName != "", !sim.specs[made.spec].gangs:
			assigned++
		default:
			assumed[made.spec]++
		}
	}
	for i := range g.created {
		if handled := sim.replica.handledMember(g, i); handled != nil && handled.Spec.NodeName != "" && !view.begun[handled.UID] {
			assigned++
		}
	}
	return assigned + slices.Max(append(slices.Collect(maps.Values(assumed)), 0))
}

// lastPlacement is the newest placement of a pod by the process; ok is false for none.
func (sim *simulation) lastPlacement(uid types.UID) (last placement, ok bool) {
	for _, d := range slices.Backward(sim.placements[uid]) {
		if d.process == sim.process {
			return d, true
		}
	}
	return placement{}, false
}

// memberKey is the key of the member that was created as number i.
func (g *gang) memberKey(i int) string { return "shop/" + g.name + "-" + itoa(i) }

// checkGangBinding checks a Binding when it is sent: no member is bound before as many as the
// gang wants had a node at once.
func (sim *simulation) checkGangBinding(pod *v1.Pod) {
	if pod == nil {
		return
	}
	g := sim.gangOf(pod)
	if g == nil {
		return
	}
	if made, placed := sim.lastPlacement(pod.UID); placed && sim.specs[made.spec].gangs && !sim.viewOf(g).quorum {
		sim.failf("%s is bound, and %d members of its gang were never assumed or assigned at once", describe(pod), g.minCount)
	}
}

// checkCycleSpec checks that all pods that one cycle places are placed by one spec.
func (sim *simulation) checkCycleSpec(pod *v1.Pod, d placement) {
	if !sim.hasGangs() || d.cycle == 0 {
		return
	}
	spec, known := sim.gangs.cycleSpecs[d.cycle]
	switch {
	case !known:
		sim.gangs.cycleSpecs[d.cycle] = d.spec
	case spec != d.spec:
		sim.failf("%s was bound by spec %d, and another pod of the same cycle by spec %d", describe(pod), d.spec, spec)
	default:
		sim.count("two members are bound by one cycle")
	}
}

// checkIdleGangs checks what must hold of gangs where only time can advance: no gang is
// assumed in part unless it was interrupted, and none waits at Permit for too long.
func (sim *simulation) checkIdleGangs() {
	if !sim.hasGangs() {
		return
	}
	waiting := sim.sched.Components().Waiting
	for _, g := range sim.gangs.gangs {
		view := sim.viewOf(g)
		if len(view.begun) == 0 {
			continue
		}
		// A plugin that sleeps in Reserve or Permit holds up the loop between two members.
		atRest := sim.settings.slowCalls == 0
		if atRest && !view.quorum && !g.whole {
			sim.checkPart(g, view)
		}
		for uid := range view.begun {
			if !waiting.Has(uid) {
				delete(view.waitsSince, uid)
				continue
			}
			if atRest && view.quorum && !view.interrupted && slices.Contains(waiting.Get(uid).GetPendingPlugins(), gangscheduling.Name) {
				sim.failf("a member of %s, UID %s, waits for others, and %d have a node", g.name, uid, sim.scheduledMembers(g))
			}
			since, known := view.waitsSince[uid]
			if !known {
				view.waitsSince[uid] = sim.clock.monotonic()
			} else if sim.clock.monotonic()-since > permitLimit {
				sim.failf("a member of %s, UID %s, waits at Permit for longer than %v", g.name, uid, permitLimit)
			}
		}
	}
}

// checkPart checks a gang that was assumed, but not as a whole.
func (sim *simulation) checkPart(g *gang, view *gangView) {
	sim.count("a gang waits at Permit in part")
	if !view.interrupted && !view.loose {
		sim.failf("%s is assumed in part: %d pods of at least %d, and no other was lost", g.name, len(view.begun), g.minCount)
	}
}

// checkBoundParts checks, where no Binding is under way, that each gang has none of its pods on
// nodes or as many as it wants, unless it lost some.
func (sim *simulation) checkBoundParts() {
	for _, g := range sim.gangs.gangs {
		if n := g.bound(); n > 0 && !g.whole && !g.interrupted && !g.loose {
			sim.failf("%s runs in part: %d pods are bound, want none or at least %d", g.name, n, g.minCount)
		}
	}
}

// isGated says whether a gang waits for more pods, or has a pod that a plugin gates.
func (sim *simulation) isGated(g *gang, spec *profileSpec) bool {
	gated := g.live() < g.minCount
	if gated {
		sim.count("a gang waits for its pods")
	}
	if g.native && sim.podGroupOf(g) == nil {
		sim.count("a gang waits for its PodGroup")
		gated = true
	}
	for _, pod := range sim.pendingMembers(g) {
		if isGatedPod(pod, spec) {
			sim.count("a gang has a gated pod")
			gated = true
		}
	}
	return gated
}

// checkGroupPlace checks the place of a pending member where the history is settled: its gang
// is gated, or does not fit and is tried again and again.
func (sim *simulation) checkGroupPlace(g *gang, p *profile, place queue.Place) {
	switch gated := sim.isGated(g, p.running); {
	case gated != (place == queue.Gated):
		sim.failf("%s is at %q, and gated: %v", g.name, place, gated)
	case gated:
	case !inMotion(place) && place != queue.Unschedulable:
		sim.failf("%s is at %q", g.name, place)
	case sim.fits(g, p):
		sim.failf("%s is at %q, and fits: %d of at least %d pods are bound", g.name, place, g.bound(), g.minCount)
	default:
		sim.count("a gang waits in a full cluster")
	}
}

// isGatedPod says whether a plugin gates a pod, whatever becomes of its gang.
func isGatedPod(pod *v1.Pod, spec *profileSpec) bool {
	return len(pod.Spec.SchedulingGates) > 0 || !spec.withoutProbe && pod.Labels[holdLabel] != ""
}

// fits says whether as many members of a gang fit now as are missing, one at least.
//
// As in kube-scheduler, a member that was nominated for a node keeps the nomination when its
// group does not fit any more and nobody can be preempted for it, and the members' nominations
// count against each other: a gang may wait although it would fit without its own nominations.
func (sim *simulation) fits(g *gang, p *profile) bool {
	pods := sim.pendingMembers(g)
	missing := max(1, g.minCount-g.bound())
	if len(pods) < missing || sim.room(g, p, pods, nil) < missing {
		own := map[types.UID]bool{}
		for _, pod := range pods {
			own[pod.UID] = true
		}
		if len(pods) >= missing && sim.room(g, p, pods, own) >= missing {
			sim.count("a gang waits for the nominations of its own pods")
		}
		return false
	}
	return true
}

// room is for how many of the given members the nodes have room, beside the pods there and
// those nominated for them, without those in ignored. Members are equal but for what they
// tolerate, so that it does not matter which goes where.
func (sim *simulation) room(g *gang, p *profile, pods []*v1.Pod, ignored map[types.UID]bool) (room int) {
	nominated := sim.nominated()
	for _, node := range sim.server.sortedNodes() {
		if !p.running.admits(node) || mismatchesAny(pods, node) {
			continue
		}
		there := sim.podsOn(node.Name)
		for _, other := range nominated[node.Name] {
			if !ignored[other.UID] {
				there = append(there, other)
			}
		}
		var cpu int64
		for _, pod := range there {
			cpu += cpuOf(pod).MilliValue()
		}
		free := (node.Status.Allocatable.Cpu().MilliValue() - cpu) / int64(1000*g.cpu)
		room += max(0, int(min(free, node.Status.Allocatable.Pods().Value()-int64(len(there)))))
	}
	return room
}

func mismatchesAny(pods []*v1.Pod, node *v1.Node) bool {
	for _, pod := range pods {
		if nodeMismatch(pod, node) != "" {
			return true
		}
	}
	return false
}
