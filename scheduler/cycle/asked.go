package cycle

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// askOpaque asks the opaque plugins about those nodes of a chunk that nobody
// before them in the chain refuses, and returns how many nodes it has come by:
// one that fails ends the attempt.
func (a *attempt) runOpaqueFilters(chunk []framework.Slot) int {
	if len(a.opaque) == 0 || fault.StrangerUnheard {
		return len(chunk)
	}
	for n, slot := range chunk {
		if a.isNominated[slot] {
			continue // it is asked for all that is flagged
		}
		for i := range a.opaque {
			filter := &a.opaque[i]
			if v := a.verdicts[n]; !v.feasible() && v.pluginIndex() < filter.Index {
				break
			}
			status := a.framework.RunOpaqueFilter(a.ctx, a.State, a.Pod, a.snapshot.Columns().Nodes[slot], filter)
			if status.IsError() {
				a.failure = status
				return n
			}
			if !status.IsSuccess() {
				a.verdicts[n] = a.addStatus(status)
				break
			}
		}
	}
	return len(chunk)
}

// answer returns a verdict that stands for what was said in this attempt.
func (a *attempt) addStatus(status *fwk.Status) verdict {
	a.statuses = append(a.statuses, status)
	return statusBit | verdict(len(a.statuses)-1)
}

// askFlagged asks the flagged nodes of a chunk in the plain way. It returns how
// many nodes it has come by, as askOpaque does, and is not ok when what is
// remembered of one is wrong.
func (a *attempt) filterNominatedNodes(chunk []framework.Slot) (met int, ok bool) {
	if len(a.nominatedSlots) == 0 {
		return len(chunk), true
	}
	for i, slot := range chunk {
		if !a.isNominated[slot] {
			continue
		}
		status := a.framework.RunFilterPluginsWithNominatedPods(a.ctx, a.State, a.Pod, a.snapshot.Columns().Nodes[slot])
		switch {
		case status.IsError():
			a.failure = status
			return i, true
		case !status.IsSuccess():
			a.verdicts[i] = a.addStatus(status)
		case !a.verdicts[i].feasible():
			// The plain way asks about the node without the nominated pods, too.
			return i, false
		}
	}
	return len(chunk), true
}

// flag notes the nodes that pods are nominated for, in place of those of the
// last attempt.
func (a *attempt) setNominatedNodes(nodes []string) {
	for _, slot := range a.nominatedSlots {
		a.isNominated[slot] = false
	}
	a.nominatedSlots = a.nominatedSlots[:0]
	if short := len(a.snapshot.Columns().Nodes) - len(a.isNominated); short > 0 {
		a.isNominated = append(a.isNominated, make([]bool, short)...)
	}
	for _, name := range nodes {
		if slot, there := a.snapshot.Slot(name); there {
			a.nominatedSlots, a.isNominated[slot] = append(a.nominatedSlots, slot), true
		}
	}
}
