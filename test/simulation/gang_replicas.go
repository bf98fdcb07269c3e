package simulation

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// In a history of gangs and replicas, the members of a gang that a leader has assumed are unknown
// to its successor, which knows the bound ones alone. A gang is bound by one Binding for each
// member, as in kube-scheduler: a leader that ends between two of them leaves a part of the gang,
// which its successor completes as far as there are resources. What each process assumed is in a
// gangView, and what holds of the whole cluster in the gang's round.

// gangsAndReplicas are the histories that have both. A handover meets a part of the gangs only where
// there are few.
var gangsAndReplicas = kind{gangs: 6, replicas: true}

// gangView is what one process does with a gang.
type gangView struct {
	// begun are the members that the process assumed and has not unreserved since.
	begun map[types.UID]bool
	// gone are the members of whose deletion its handlers know.
	gone map[types.UID]bool
	// waitsSince is the monotonic time at which a member at Permit was seen there first.
	waitsSince map[types.UID]time.Duration
	// quorum says that the process held minCount members for assumed or assigned at once.
	quorum bool
	// lostIn is the attempt in its loop during or after which a member was lost last.
	lostIn int
	// round is what happened since neither the process nor the server had a member on any node.
	round
}

func newGangView() *gangView {
	return &gangView{begun: map[types.UID]bool{}, gone: map[types.UID]bool{}, waitsSince: map[types.UID]time.Duration{}}
}

// viewOf returns what the process of the replica does with a gang.
func (sim *simulation) viewOf(g *gang) *gangView { return sim.replica.gangViews[g] }

// noteEndOfProcess notes that whatever the process had assumed is assumed no more, and that of the
// next one nothing is yet.
func (sim *simulation) noteEndOfProcess() {
	wasLeading, ended := sim.isLeading(sim.replica), sim.gangViews
	sim.gangViews, sim.lastCycle = map[*gang]*gangView{}, 0
	for _, g := range sim.gangs.gangs {
		if wasLeading && ended[g] != nil && (len(ended[g].begun) > 0 || g.bound() > 0) {
			sim.interruptRound(g)
		}
		sim.gangViews[g] = newGangView()
		sim.gangViews[g].interrupted = g.bound() > 0 // another process has bound them
	}
}

// noteNewLeader notes that the gangs of which an earlier leader has placed some members are
// completed by another process, or by none.
func (sim *simulation) noteNewLeader() {
	for _, g := range sim.gangs.gangs {
		begun := slices.ContainsFunc(sim.replicas, func(r *replica) bool { return r != sim.replica && len(r.gangViews[g].begun) > 0 })
		if !begun && g.bound() == 0 {
			continue
		}
		if !g.whole {
			sim.count("a gang is interrupted by a handover")
		}
		sim.interruptRound(g)
		sim.viewOf(g).interrupted = true
	}
}

// noteBoundMember notes that a member has got a node in the server.
func (sim *simulation) noteBoundMember(g *gang, pod *v1.Pod) {
	byLeader := false
	for _, r := range sim.replicas {
		view := r.gangViews[g]
		switch {
		case !view.begun[pod.UID] || sim.boundElsewhere[pod.UID]:
			// The Binding of an attempt that is over, of another process or of another component.
			view.interrupted, view.lostIn = true, r.lastCycle
		case sim.isLeading(r):
			byLeader = true
		}
	}
	switch {
	case !byLeader:
		sim.interruptRound(g)
	case g.whole:
		sim.count("a gang gets a member while it runs")
	}
	if sim.hasReplicas() && byLeader && slices.ContainsFunc(sim.boundMembers(g), func(other *v1.Pod) bool {
		return other.UID != pod.UID && sim.boundBy[other.UID] > 0 && sim.boundBy[other.UID] != sim.front().process
	}) {
		sim.count("a leader adds a member to those that an earlier one has bound")
	}
}

// boundMembers are the members that have a node and have not ended.
func (sim *simulation) boundMembers(g *gang) (pods []*v1.Pod) {
	for _, pod := range g.members {
		if isLivePod(pod) && pod.Spec.NodeName != "" {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, byName)
	return pods
}

// interrupt notes that the process lost a member of a gang. What a leader loses after its successor
// has placed a pod changes nothing in the cluster.
func (sim *simulation) interrupt(g *gang) {
	view := sim.viewOf(g)
	if !sim.isDeposed() {
		sim.interruptRound(g)
	}
	view.interrupted, view.lostIn = true, sim.lastCycle
}

// interruptAll notes that all processes lose a member of a gang: that it was deleted, or ends.
func (sim *simulation) interruptAll(g *gang) {
	sim.interruptRound(g)
	for _, r := range sim.replicas {
		view := r.gangViews[g]
		view.interrupted, view.lostIn = true, r.lastCycle
	}
}

// interruptRound notes that the cluster lost a member of a gang.
func (sim *simulation) interruptRound(g *gang) {
	if !g.whole && !g.interrupted && (sim.isBegun(g) || g.bound() > 0) {
		sim.count("a gang is interrupted")
	}
	g.interrupted = true
}

// noteRounds begins another round for a gang that has no member on any node: neither in the
// server, nor in what a process assumed or its handlers have received.
func (sim *simulation) noteRounds(g *gang) {
	if g.bound() > 0 {
		return
	}
	left := false
	for _, r := range sim.replicas {
		view := r.gangViews[g]
		if view == nil {
			continue
		}
		if !view.isEmpty(r, g) {
			left = left || sim.isLeading(r)
			continue
		}
		view.quorum, view.round = false, round{}
	}
	if !left {
		g.round = round{}
	}
}

// isEmpty says that a process holds no member of a gang for assumed or assigned.
func (v *gangView) isEmpty(r *replica, g *gang) bool {
	if len(v.begun) > 0 {
		return false
	}
	for i := range g.created {
		if handled := r.handledMember(g, i); handled != nil && handled.Spec.NodeName != "" {
			return false
		}
	}
	return true
}

// handledMember is the member that was created as number i, as the handlers of the process have
// received it; nil for none.
func (r *replica) handledMember(g *gang, i int) *v1.Pod {
	if len(r.informers) == 0 {
		return nil
	}
	pod, _ := r.informers[0].handled[g.memberKey(i)].(*v1.Pod)
	return pod
}

// isBegun says whether a process that may place pods has assumed a member of a gang.
func (sim *simulation) isBegun(g *gang) bool {
	return slices.ContainsFunc(sim.replicas, func(r *replica) bool {
		return r.gangViews[g] != nil && len(r.gangViews[g].begun) > 0 && sim.isLeading(r)
	})
}

// isLeading says whether what the process of a replica assumes may be bound: it is a leader, and no
// later one has placed a pod.
func (sim *simulation) isLeading(r *replica) bool {
	if !sim.hasReplicas() {
		return true
	}
	return !r.dead && r.election != nil && r.election.leads && r.election.tracker.Epoch() >= sim.decidedEpoch
}

// checkKnownGangs checks, where the history is settled, that each replica has the pods and the
// PodGroup of each gang: a standby takes over with them.
func (sim *simulation) checkKnownGangs() {
	front := sim.replica
	for _, r := range sim.replicas {
		sim.use(r)
		for _, g := range sim.gangs.gangs {
			if !g.ended && len(g.members) > 0 {
				sim.checkKnownGang(g)
			}
		}
		if r != front {
			sim.count("a standby knows the gangs")
		}
	}
	sim.use(front)
}

func (sim *simulation) checkKnownGang(g *gang) {
	pending, bound := sim.pendingMembers(g), sim.boundMembers(g)
	first := append(slices.Clone(pending), bound...)
	if len(first) == 0 {
		return
	}
	key, _ := podgroups.KeyOf(first[0])
	known := sim.sched.Components().Cache.Groups().Group(key)
	if want := sim.podGroupOf(g); want != nil && (known.PodGroup == nil || known.PodGroup.ResourceVersion != want.ResourceVersion) {
		sim.failf("%s does not know the PodGroup %s: %v", sim.replica.name, describe(want), known.PodGroup)
	}
	names := slices.Sorted(maps.Keys(known.Unscheduled))
	if !slices.Equal(names, namesOf(pending)) || !slices.Equal(namesOf(known.Scheduled), namesOf(bound)) {
		sim.failf("%s knows of %s the pending pods %q and those on nodes %q, want %q and %q",
			sim.replica.name, g.name, names, namesOf(known.Scheduled), namesOf(pending), namesOf(bound))
	}
}

func namesOf(pods []*v1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}

// requiredGangReplicaEvents are what a thousand histories of gangs and replicas must have seen, beside
// the faults of machines and networks that all histories of replicas have.
func requiredGangReplicaEvents() []string {
	all := []string{
		"a gang is assumed", "a gang runs whole", "a gang is interrupted", "a gang waits at Permit in part",
		"a gang waits in a full cluster", "a gang waits for its pods", "a gang that was interrupted starts again",
		"a gang gets a member while it runs", "two members are bound by one cycle",
		"a gang is interrupted by a handover", "a leader adds a member to those that an earlier one has bound",
		"a member of a gang is made again under its name", "a list of PodGroups is older than etcd", "a standby knows the gangs",
		"a new leader's first decision", "a gang is bound whole that an earlier leader has left in part",
		"a leader places a pod although its successor has placed one",
		"a Binding of an earlier epoch is refused after the next leader's first decision",
		"a Binding of an earlier epoch is refused during a handover", "a Binding of an earlier epoch is committed during a handover",
		"event Preempted", "event Scheduled",
	}
	for _, kind := range slices.Concat(gangActionKinds(1), faultActionKinds, gangHandoverKinds) {
		all = append(all, kind.name)
	}
	return all
}
