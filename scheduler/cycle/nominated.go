package cycle

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// versionedNominations are the nominated pods, as package cache has them.
type versionedNominations interface {
	NominatedNodes() []string
	NominatedNode(uid types.UID) string
	NominationsVersion(node string) uint64
}

// statusWithNominated is the status of a node for pods of one class and
// priority, with the pods that are nominated for the node and without them.
type statusWithNominated struct {
	// generation is that of the node, nominations the version of the pods that
	// are nominated for it, and priority that of the pods of the class.
	generation  int64
	nominations uint64
	priority    int32
	status      *fwk.Status
}

// bytesWithNominated is about the size of a statusWithNominated in its map.
const bytesWithNominated = 64

// setNominatedNodes replaces the nominated nodes of the last attempt.
func (a *attempt) setNominatedNodes(nominations versionedNominations) {
	for _, slot := range a.nominatedSlots {
		a.isNominated[slot] = false
	}
	a.nominatedSlots, a.nominations, a.ownNode = a.nominatedSlots[:0], nominations, nominations.NominatedNode(a.Pod.UID)
	if short := len(a.snapshot.Columns().Nodes) - len(a.isNominated); short > 0 {
		a.isNominated = append(a.isNominated, make([]bool, short)...)
	}
	for _, name := range nominations.NominatedNodes() {
		if slot, there := a.snapshot.Slot(name); there {
			a.nominatedSlots, a.isNominated[slot] = append(a.nominatedSlots, slot), true
		}
	}
}

// filterNominatedNodes runs all Filter plugins for the nominated nodes of a
// chunk, with and without the nominated pods. It returns the number of visited
// nodes, like runOpaqueFilters; ok is false if a cached verdict is wrong.
func (a *attempt) filterNominatedNodes(chunk []counts.Slot) (visited int, ok bool) {
	if framework.CheckAbandoned(a.State) != nil {
		return 0, false
	}
	if len(a.nominatedSlots) == 0 {
		return len(chunk), true
	}
	for i, slot := range chunk {
		if !a.isNominated[slot] {
			continue
		}
		status := a.statusWithNominated(slot)
		switch {
		case status.IsError():
			a.failure = status
			return i, framework.CheckAbandoned(a.State) == nil
		case !status.IsSuccess():
			a.verdicts[i] = a.addStatus(status)
		case !a.verdicts[i].feasible():
			// The plugins also ran without the nominated pods, so that a cached
			// rejection must reject here, too.
			return i, false
		}
	}
	return len(chunk), true
}

// statusWithNominated returns the status of the node in slot with the pods that
// are nominated for it and without them. Many pods may be nominated, while
// their victims terminate, and each attempt visits all of their nodes.
func (a *attempt) statusWithNominated(slot counts.Slot) *fwk.Status {
	node := a.snapshot.Columns().Nodes[slot]
	name := node.Node().Name
	known := statusWithNominated{node.Generation, a.nominations.NominationsVersion(name), corev1.PodPriority(a.Pod), nil}
	reusable := a.isReusable() && a.ownNode != name
	if last, ok := a.class.withNominated[slot]; ok && reusable && last.isValidFor(known) {
		return last.status
	}
	known.status = a.framework.RunFilterPluginsWithNominatedPods(a.ctx, a.State, a.Pod, node)
	if reusable && !known.status.IsError() {
		a.class.keepWithNominated(slot, known)
	}
	return known.status
}

// keepWithNominated keeps the status of the node in slot.
func (c *podClass) keepWithNominated(slot counts.Slot, s statusWithNominated) {
	if c.withNominated == nil {
		c.withNominated = map[counts.Slot]statusWithNominated{}
	}
	before := len(c.withNominated)
	c.withNominated[slot] = s
	c.cache.budget.account(c.cache, bytesWithNominated*(len(c.withNominated)-before))
}

// forgetNominated removes the statuses that were kept.
func (c *podClass) forgetNominated() {
	c.cache.budget.account(c.cache, -bytesWithNominated*len(c.withNominated))
	clear(c.withNominated)
}

// isValidFor reports whether s has the status of a node as now describes it.
func (s statusWithNominated) isValidFor(now statusWithNominated) bool {
	return s.generation == now.generation && s.nominations == now.nominations && s.priority == now.priority
}

// isReusable reports whether the statuses of Filter plugins are those of every
// pod of the class.
func (a *attempt) isReusable() bool {
	state, ok := a.State.(*framework.CycleState)
	return ok && state.PodClass() == a.class.id
}
