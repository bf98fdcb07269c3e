package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
)

// In a history of gangs, groups of pods come beside the single pods, under profiles that
// enable the GangScheduling that Berth ships. A gang's members come late, are deleted and
// replaced, and end together once the gang ran whole: gangs that together want more than the
// cluster has all run in the end. gang_check.go has the invariants, gang_end.go the end.

// In a history of gangs and replicas each process does this for itself: see gang_replicas.go.

// manyGangs is the number of gangs above which a history has larger nodes, few faults in
// plugins, and checks that look at everything less often: those take time that grows with the
// number of pods.
const manyGangs = 100

// gang is a group of equal pods.
type gang struct {
	name, profile        string
	count, minCount, cpu int
	priority             int32
	// native says that a PodGroup says what the gang wants, not its pods.
	native bool
	// created counts the pods that were ever created for it, ended says that it is over.
	created int
	ended   bool
	members map[types.UID]*v1.Pod // as the server has them

	// whole says that minCount members were bound at once, some time.
	whole bool
	round
}

// round is what happened to a gang since it last had no member on any node.
type round struct {
	// interrupted says that a member was lost between the first assumption and the last
	// Binding: by its deletion, a failed Binding or the end of a process.
	interrupted bool
	// loose says that a profile without GangScheduling placed a member.
	loose bool
}

// gangs is the state of a history's gangs.
type gangs struct {
	gangs  []*gang
	byName map[string]*gang
	// byPodGroup are the gangs by the UIDs of all PodGroups that there ever were.
	byPodGroup map[types.UID]*gang
	// cycleCount numbers the attempts in the loop, and cycleSpecs has the spec of each that
	// placed a pod.
	cycleCount int
	cycleSpecs map[int]int
	// changedAt is when a pod or node changed last in more than its status.
	changedAt time.Time
	// endLeaderBy is the step until which the leader ends where it has bound a part of a gang; 0: it
	// does not. See gang_handover.go.
	endLeaderBy int
}

// drawGangs adds n gangs to the history, and as many nodes as hold a part of them, half at
// least.
func (sim *simulation) drawGangs(n int) {
	s, random := &sim.settings, sim.random
	sim.gangs = gangs{byName: map[string]*gang{}, byPodGroup: map[types.UID]*gang{}, cycleSpecs: map[int]int{}, changedAt: startTime}
	s.gangs, s.yields = n, min(s.yields, 0.1)
	sim.tasks.maxClockReads = minClockReads * (1 + n/manyGangs)
	s.nodeCPUs, s.nodePods = 8, 10
	if n > manyGangs {
		s.nodeCPUs, s.nodePods = 64, 110
		s.yields, s.pluginFaults, s.extraCreates = min(s.yields, 0.001), min(s.pluginFaults, 0.0001), 0
	}
	samePriority, wanted := random.IntN(2) == 0, 0
	for i := range n {
		g := &gang{
			name: "gang-" + itoa(i), profile: s.profileNames[random.IntN(len(s.profileNames))],
			count: 2 + random.IntN(5), cpu: 1 + random.IntN(3), members: map[types.UID]*v1.Pod{},
		}
		g.minCount = g.count
		if random.IntN(2) == 0 {
			g.minCount = 1 + random.IntN(g.count)
		}
		if !samePriority {
			g.priority = int32(random.IntN(5))
		}
		g.native = random.IntN(2) == 0
		wanted += g.count * g.cpu
		sim.gangs.gangs = append(sim.gangs.gangs, g)
		sim.gangs.byName[g.name] = g
	}
	part := 0.5 + random.Float64()
	s.nodes = max(int(part*float64(wanted))/s.nodeCPUs, 3) // any gang fits on three empty nodes
	s.actions = 2*n + 10 + random.IntN(30)
	s.kinds = slices.Concat(s.kinds, gangActionKinds(n))
	for _, kind := range s.kinds[len(s.actionWeights):] {
		s.actionWeights = append(s.actionWeights, kind.weight)
	}
}

// hasGangs says whether this is a history of gangs.
func (sim *simulation) hasGangs() bool { return sim.settings.gangs > 0 }

// gangOf returns the gang that a pod belongs to, nil for none.
func (sim *simulation) gangOf(pod *v1.Pod) *gang {
	if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
		return sim.gangs.byName[*group.PodGroupName]
	}
	return sim.gangs.byName[pod.Annotations[v1alpha1.AnnotationPodGroup]]
}

// isGrouped says whether a pod is scheduled together with its gang under a spec.
func (sim *simulation) isGrouped(pod *v1.Pod, spec *profileSpec) bool {
	return spec.gangs && sim.gangOf(pod) != nil
}

// live counts the members that have not ended.
func (g *gang) live() (n int) {
	for _, pod := range g.members {
		if isLivePod(pod) {
			n++
		}
	}
	return n
}

// bound counts the members that have a node and have not ended.
func (g *gang) bound() (n int) {
	for _, pod := range g.members {
		if isLivePod(pod) && pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// pending returns the members that wait for a node, by name.
func (sim *simulation) pendingMembers(g *gang) []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range g.members {
		if isPending(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, byName)
	return pods
}

// addMember creates a pod of a gang.
func (sim *simulation) addMember(g *gang, random *rand.Rand) {
	name := fmt.Sprintf("%s-%d", g.name, g.created)
	g.created++
	pod := fixture.Pod("shop/"+name).UID("u"+itoa(sim.server.version)).SchedulerName(g.profile).
		Requests("cpu", itoa(g.cpu)).Priority(g.priority)
	if g.native {
		pod.Mutate(func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &g.name} })
	} else {
		pod.Annotation(v1alpha1.AnnotationPodGroup, g.name).Annotation(v1alpha1.AnnotationPodGroupMinCount, itoa(g.minCount))
	}
	if !sim.healed {
		if random.IntN(20) == 0 {
			pod.SchedulingGate("quota")
		}
		if label := []string{permitLabel, holdLabel, "", "", "", "", "", "", "", "", "", ""}[random.IntN(12)]; label != "" {
			pod.Label(label, []string{"wait", "wait", "wait", "refuse"}[random.IntN(4)])
		}
	}
	sim.addPod(pod.Mutate(func(p *v1.Pod) { fixture.AddWorkloadFields(&p.Spec) }).Obj())
}

// endGang deletes all pods of a gang, which is over.
func (sim *simulation) endGang(g *gang) {
	sim.logf("outside: %s has ended", g.name)
	g.ended = true
	sim.dropMembers(g, func(*v1.Pod) bool { return true })
	sim.server.dropPodGroup("shop/" + g.name)
}

// dropMembers deletes the members of a gang for which which is true.
func (sim *simulation) dropMembers(g *gang, which func(*v1.Pod) bool) {
	var keys []string
	for _, pod := range g.members {
		if which(pod) {
			keys = append(keys, keyOf(pod))
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		sim.server.dropPod(key)
	}
}
