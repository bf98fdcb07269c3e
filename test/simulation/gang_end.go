package simulation

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// retryTime is longer than the backoff of a group, which is 10 s times the square root of the
// number of its pods at most.
const retryTime = time.Minute

// settleTime is for how long nothing must change before the gangs that wait are checked. A new
// leader may wait for requestTimeout before its first attempt.
func (sim *simulation) settleTime() time.Duration {
	if sim.hasReplicas() {
		return requestTimeout + retryTime
	}
	return retryTime
}

// endGangs lets all gangs run: their missing members come, what runs whole ends, and the
// others get the room.
func (sim *simulation) endGangs() {
	sim.healCluster()
	for rounds := 0; sim.failure == nil && sim.completeGangs() > 0; rounds++ {
		if rounds > 10*sim.settings.gangs {
			sim.failf("gangs start again and again; pods by queue: %v", sim.places())
			return
		}
		sim.settle()
		if sim.failure != nil {
			return
		}
		sim.checkSettled()
		if sim.endWholeGangs() == 0 && sim.restartGangs() == 0 && sim.endSinglePods() == 0 {
			sim.failf("the cluster is empty, and these gangs do not run: %v", sim.waitingGangs())
		}
	}
}

// healCluster lets every profile schedule gangs, and any gang fit on the nodes.
func (sim *simulation) healCluster() {
	for _, p := range sim.profiles {
		sim.specCount++
		p.setSpec(&profileSpec{number: sim.specCount, gangs: true})
	}
	for i := range sim.settings.nodes {
		name := "n" + itoa(i)
		if sim.server.nodes[name] == nil {
			sim.putNode(sim.newGangNode(name))
			continue
		}
		sim.server.editNode(name, func(n *v1.Node) {
			n.Status.Allocatable, n.Spec.Taints, n.Spec.Unschedulable = sim.gangNodeCapacity(), nil, false
		})
		sim.logNode(name)
	}
	for _, pod := range sim.server.sortedPods() {
		if sim.gangOf(pod) != nil && (len(pod.Spec.SchedulingGates) > 0 || pod.Labels[holdLabel] != "") {
			sim.updatePod(pod, "is not held any more", func(p *v1.Pod) {
				p.Spec.SchedulingGates = nil
				delete(p.Labels, holdLabel)
			})
		}
		if pod.DeletionTimestamp != nil || sim.gangOf(pod) != nil && !isLivePod(pod) {
			sim.server.dropPod(keyOf(pod))
		}
	}
}

func (sim *simulation) gangNodeCapacity() v1.ResourceList {
	return fixture.Resources("cpu", itoa(sim.settings.nodeCPUs), "pods", itoa(sim.settings.nodePods))
}

// newGangNode returns a node of the size that the gangs were drawn for.
func (sim *simulation) newGangNode(name string) *v1.Node {
	node := newNode(name, sim.server.version, sim.random)
	node.Status.Capacity, node.Status.Allocatable = sim.gangNodeCapacity(), sim.gangNodeCapacity()
	return node
}

// completeGangs creates the members that gangs lack, and returns how many gangs have not
// ended.
func (sim *simulation) completeGangs() (left int) {
	for _, g := range sim.gangs.gangs {
		if g.ended {
			continue
		}
		left++
		if g.native && sim.podGroupOf(g) == nil {
			sim.addPodGroup(g)
		}
		for g.live() < g.count {
			sim.addMember(g, sim.random)
		}
	}
	return left
}

// settle goes on until nothing has changed for settleTime().
func (sim *simulation) settle() {
	sim.gangs.changedAt = sim.clock.now
	for n := 0; sim.failure == nil && !sim.settled(); n++ {
		if n == sim.patience() {
			sim.failf("not settled; pods by queue: %v", sim.places())
		}
		sim.step()
	}
}

// settled is quiescent, but for the gangs that are tried again after their backoff.
func (sim *simulation) settled() bool {
	if !sim.hasLeader() || sim.waitingPods() > 0 {
		sim.gangs.changedAt = sim.clock.now // the end of their wait may let others run
	}
	if sim.clock.now.Sub(sim.gangs.changedAt) < sim.settleTime() || len(sim.lateWrites) > 0 || len(sim.terminating) > 0 || !sim.idle() {
		return false
	}
	places := sim.sched.Components().Queue.Places()
	for _, pod := range sim.server.pods {
		if sim.gangOf(pod) == nil && inMotion(places[pod.UID]) && isPending(pod) {
			return false
		}
	}
	for _, p := range sim.profiles {
		if p.observedGeneration < p.generation || sim.sched.Components().Queue.Counts(p.name).Quarantined > 0 {
			return false
		}
	}
	return true
}

// inMotion says that a pod at this place is tried without an event.
func inMotion(place queue.Place) bool {
	return place == queue.Active || place == queue.Backoff || place == queue.InFlight
}

// checkSettled checks the invariants of gangs where the history is settled.
func (sim *simulation) checkSettled() {
	sim.checkAlways()
	sim.checkQueue()
	sim.checkBoundParts()
	sim.checkKnownGangs()
	sim.checkGroupStatuses()
}

// endWholeGangs ends some of the gangs that ran whole, all of them where there are many.
func (sim *simulation) endWholeGangs() (ended int) {
	most := 1 + sim.random.IntN(4)
	if sim.settings.gangs > manyGangs {
		most = sim.settings.gangs
	}
	for _, g := range sim.gangs.gangs {
		if g.whole && !g.ended && ended < most {
			sim.endGang(g)
			ended++
		}
	}
	return ended
}

// restartGangs deletes the pods of gangs that were interrupted and have a part of their pods
// on nodes: gangs that hold what others wait for wait for each other, and no scheduler can
// take a bound pod back.
func (sim *simulation) restartGangs() (restarted int) {
	for _, g := range sim.gangs.gangs {
		if !g.ended && g.bound() > 0 {
			sim.logf("outside: %s starts again", g.name)
			sim.count("a gang that was interrupted starts again")
			sim.dropMembers(g, func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
			restarted++
		}
	}
	return restarted
}

// endSinglePods deletes the pods that are in no gang and have a node or are nominated for one: a pod
// with scheduling gates that another component nominated keeps the nomination as long as it exists.
func (sim *simulation) endSinglePods() (ended int) {
	for _, pod := range sim.server.sortedPods() {
		if (pod.Spec.NodeName != "" || sim.nominatedNode(pod) != "") && sim.gangOf(pod) == nil {
			sim.logf("outside: pod %s has ended", describe(pod))
			sim.server.dropPod(keyOf(pod))
			ended++
		}
	}
	return ended
}

// waitingGangs are the gangs that have not ended.
func (sim *simulation) waitingGangs() (names []string) {
	for _, g := range sim.gangs.gangs {
		if !g.ended {
			names = append(names, g.name)
		}
	}
	return names
}
