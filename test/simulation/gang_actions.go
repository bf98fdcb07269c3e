package simulation

import (
	"cmp"
	"math/rand/v2"
	"strings"

	v1 "k8s.io/api/core/v1"
)

func byName(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) }

// gangActionKinds are the actions of a history with n gangs, beside those of actionKinds. The
// weights are such that most of the gangs come before the actions end.
func gangActionKinds(n int) []actionKind {
	scale := max(1, n/manyGangs)
	return []actionKind{
		{"a gang comes", 120 * scale, true, createGang},
		{"a member of a gang comes late", 50 * scale, true, addLateMember},
		{"a member of a gang is deleted", 12 * scale, true, removeMember},
		{"a PodGroup comes late", 12 * scale, true, addLatePodGroup},
		{"a PodGroup is deleted", 3 * scale, true, deletePodGroup},
		{"a gang that ran whole has ended", 30 * scale, true, finishGang},
	}
}

// createGang creates some of a gang's members, or all.
func createGang(sim *simulation, random *rand.Rand) bool {
	g, ok := pick(random, sim.gangs.gangs, func(g *gang) bool { return g.created == 0 && !g.ended })
	if !ok {
		return false
	}
	n := g.count
	if random.IntN(3) == 0 {
		n = 1 + random.IntN(g.count)
	}
	if g.native && random.IntN(4) > 0 {
		sim.addPodGroup(g)
	}
	for range n {
		sim.addMember(g, random)
	}
	return true
}

func addLatePodGroup(sim *simulation, random *rand.Rand) bool {
	g, ok := pick(random, sim.gangs.gangs, func(g *gang) bool { return g.native && g.created > 0 && !g.ended && sim.podGroupOf(g) == nil })
	if ok {
		sim.addPodGroup(g)
	}
	return ok
}

func deletePodGroup(sim *simulation, random *rand.Rand) bool {
	g, ok := pick(random, sim.gangs.gangs, func(g *gang) bool { return sim.podGroupOf(g) != nil })
	if ok {
		sim.removePodGroup(g)
	}
	return ok
}

// addLateMember creates a member that a gang lacks: it did not come with the others, or
// replaces one that was deleted.
func addLateMember(sim *simulation, random *rand.Rand) bool {
	g, ok := pick(random, sim.gangs.gangs, func(g *gang) bool { return g.created > 0 && !g.ended && len(g.members) < g.count })
	if ok {
		sim.addMember(g, random)
	}
	return ok
}

func removeMember(sim *simulation, random *rand.Rand) bool {
	isMember := func(pod *v1.Pod) bool { return sim.gangOf(pod) != nil }
	return withPod(sim, random, isMember, func(pod *v1.Pod) {
		sim.logf("outside: pod %s is deleted", describe(pod))
		sim.server.dropPod(keyOf(pod))
	})
}

func finishGang(sim *simulation, random *rand.Rand) bool {
	g, ok := pick(random, sim.gangs.gangs, func(g *gang) bool { return g.whole && !g.ended })
	if ok {
		sim.endGang(g)
	}
	return ok
}

// requiredGangEvents are what a thousand histories of gangs must have seen.
func requiredGangEvents() []string {
	all := []string{
		"a swap", "unreserved", "post-bound", "a swap meets a pod at Permit", "a swap meets a Binding under way",
		"event FailedScheduling", "event Scheduled", "event Preempted", "late bind refused", leaderReplaced,
		"a gang is assumed", "a gang runs whole", "a gang is interrupted",
		"a gang waits at Permit in part", "a gang waits in a full cluster", "a gang waits for its pods",
		"a gang gets a member while it runs", "two members are bound by one cycle", "a gang is decided in slices",
	}
	for _, kind := range gangActionKinds(1) {
		all = append(all, kind.name)
	}
	for _, kind := range actionKinds {
		if !strings.Contains(kind.name, "nominated by another") {
			all = append(all, kind.name)
		}
	}
	return all
}
