package simulation

import (
	"math/rand/v2"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
)

// A leader rarely ends by chance between the first and the last Binding of a gang. An action waits
// for that moment.

// gangHandoverKinds are the actions that only histories of gangs and replicas have.
var gangHandoverKinds []actionKind

func init() {
	gangHandoverKinds = []actionKind{{"the leader ends when it has bound a part of a gang", 12, true, planEndOfLeader}}
}

// faultActions are the actions of this history that only histories of replicas have.
func (sim *simulation) faultActions() []actionKind {
	switch {
	case sim.hasGangs():
		return append(gangHandoverKinds, faultActionKinds...)
	case sim.controllers.on:
		return append(reportKinds, faultActionKinds...)
	}
	return faultActionKinds
}

func planEndOfLeader(sim *simulation, _ *rand.Rand) bool {
	if sim.gangs.endLeaderBy > 0 {
		return false
	}
	sim.gangs.endLeaderBy = sim.steps + 1000
	return true
}

// maybeEndLeader lets the leader end where that is due: its process is killed, or stopped or cut off
// for so long that it has a successor, so that its Bindings arrive later, or never.
func (sim *simulation) maybeEndLeader() {
	if sim.gangs.endLeaderBy == 0 || sim.healed {
		return
	}
	r := sim.front()
	if sim.steps > sim.gangs.endLeaderBy {
		sim.gangs.endLeaderBy = 0
		return
	}
	if !sim.isLeading(r) || r.stopped || r.cutOff || !sim.bindsPart(r) {
		return
	}
	sim.gangs.endLeaderBy = 0
	d := time.Duration(15+sim.random.IntN(45)) * time.Second
	switch sim.random.IntN(3) {
	case 0:
		sim.count("a leader that has bound a part of a gang is killed")
		sim.killReplica(r)
	case 1:
		sim.count("a leader that has bound a part of a gang is stopped")
		sim.stop(r, d, stopped, noTime)
	default:
		sim.count("a leader that has bound a part of a gang is cut off")
		sim.cutOff(r, d)
	}
}

// bindsPart says whether some Bindings of a gang, and not all, have arrived from a replica. Most
// often one arrives and the others do not.
func (sim *simulation) bindsPart(r *replica) bool {
	onTheWire := map[*gang]bool{}
	for _, request := range sim.requests {
		if request.verb != "bind" || request.replica != r || request.arrived {
			continue
		}
		if pod := sim.server.pods[strings.Fields(request.description)[1]]; pod != nil {
			onTheWire[sim.gangOf(pod)] = true
		}
	}
	for _, g := range sim.gangs.gangs {
		if n := g.bound(); onTheWire[g] && n > 0 && n < g.minCount {
			return true
		}
	}
	return false
}

// checkGroupStatuses checks, where the history is settled, that the PodGroup of a gang that runs
// says so, where no write of a status fails: also if the leader that bound it has ended before it
// could say it.
func (sim *simulation) checkGroupStatuses() {
	if sim.settings.requestFaults["patch"] > 0 {
		return
	}
	for _, g := range sim.gangs.gangs {
		group := sim.podGroupOf(g)
		if group == nil || g.bound() < g.minCount {
			continue
		}
		sim.count("a gang that runs has a PodGroup with a status")
		if !apimeta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
			sim.failf("%d members of %s have a node, and the conditions of its PodGroup are %+v", g.bound(), g.name, group.Status.Conditions)
		}
	}
}

// noteWholeGang notes that a gang has as many members on nodes as it wants.
func (sim *simulation) noteWholeGang(g *gang, last *v1.Pod) {
	g.whole = true
	sim.count("a gang runs whole")
	for _, pod := range sim.boundMembers(g) {
		if by := sim.boundBy[pod.UID]; sim.hasReplicas() && pod != last && by > 0 && by != sim.front().process {
			sim.count("a gang is bound whole that an earlier leader has left in part")
			return
		}
	}
}
