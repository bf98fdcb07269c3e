package cycle

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// attempt is one attempt of a pod whose class is known. Its slices are used
// again by the next one.
type attempt struct {
	*EquivalenceCache
	Request
	ctx   context.Context
	class *podClass
	// flagged are the slots of nodes that pods are nominated for; they are
	// asked in the plain way, and asked holds what they said.
	nominatedSlots []framework.Slot
	isNominated    []bool // by slot: those of flagged
	statuses       []*fwk.Status
	// opaque are the plugins that are asked about every node that is met, and
	// failed is how one of them ended the attempt.
	opaque  []framework.OpaqueFilter
	failure *fwk.Status
	// said is what PreFilter said to the pod itself; nil: its class's is good.
	preFilterResult *preFilterResult

	// window are the nodes that fit, refused those that do not, in the order in
	// which they were met.
	feasible []framework.Slot
	rejected []rejectedNode

	verdicts []verdict
	// sums are the verdicts of those that are being judged.
	sums           []verdict
	stale          []framework.Slot
	rejectionCodes []framework.RejectionCode
	ranking        ranking
}

// refusedNode is a node that does not fit, and why.
type rejectedNode struct {
	slot    framework.Slot
	verdict verdict
}

// walk is Cycle.walk over what is remembered. It reports false when a plugin
// failed, which the plain way will tell of.
func (a *attempt) findFeasibleNodes(start int) bool {
	nodes := a.snapshot.Slots()
	want := numFeasibleNodesToFind(a.PercentageOfNodesToScore, len(nodes))
	if a.framework.FirstFeasibleNodeSuffices() {
		want = 1
	}
	a.feasible, a.rejected, a.ranking.totals = a.feasible[:0], a.rejected[:0], a.ranking.totals[:0]
	simple := a.usesCacheOnly()
	for seen := 0; seen < len(nodes); {
		at := (start + seen) % len(nodes)
		// As many as are still wanted, and one more, most likely fit.
		size := min(len(nodes)-seen, len(nodes)-at, want+1-len(a.feasible))
		chunk := nodes[at : at+size]
		seen += size
		switch over, ok := a.visitChunk(chunk, want, simple); {
		case !ok:
			return false
		case over:
			return true
		}
	}
	return true
}

// simple says that what is remembered is all there is to say.
func (a *attempt) usesCacheOnly() bool {
	return len(a.class.forms.ActiveFilters) == 0 && len(a.nominatedSlots) == 0 && len(a.opaque) == 0
}

// meet sorts a chunk into window and refused, and reports whether the walk is
// over: one more fits than is wanted. It is not ok when a plugin failed.
func (a *attempt) visitChunk(chunk []framework.Slot, want int, simple bool) (over, ok bool) {
	if simple {
		return a.visitChunkFromCache(chunk, want)
	}
	if !a.evaluateStale(chunk) || !a.evaluate(chunk) {
		return false, false
	}
	met, ok := a.filterNominatedNodes(chunk[:a.runOpaqueFilters(chunk)])
	if !ok {
		return false, false
	}
	for i, slot := range chunk[:met] {
		if a.record(slot, a.verdicts[i], want) {
			return true, true
		}
	}
	return a.failure != nil, true
}

// lookAhead is how many nodes are looked through for others that changed when one
// did: they are judged together, but most walks meet one or two.
const lookAhead = 512

// takeRemembered is meet where what is remembered is all there is to say. It
// passes over the chunk once, since most walks are this one.
func (a *attempt) visitChunkFromCache(chunk []framework.Slot, want int) (over, ok bool) {
	if a.class.empty && !a.evaluateStale(chunk) {
		return false, false
	}
	for {
		met, over := a.visitFreshNodes(chunk, want)
		if chunk = chunk[met:]; over || len(chunk) == 0 {
			return over, true
		}
		if !a.evaluateStale(chunk[:min(lookAhead, len(chunk))]) {
			return false, false
		}
	}
}

// takeFresh takes nodes up to the first that has changed. It is the innermost
// loop of most attempts, and keeps what it writes to at hand.
func (a *attempt) visitFreshNodes(chunk []framework.Slot, want int) (met int, over bool) {
	n := len(a.feasible)
	window, totals := grow(a.feasible, want), grow(a.ranking.totals, want)
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	for _, slot := range chunk {
		e := entries[slot]
		if e.version != versions[slot] && !(fault.VerdictOutlivesNode && e.version != 0) {
			break
		}
		if !e.verdict.feasible() {
			a.rejected = append(a.rejected, rejectedNode{slot, e.verdict})
		} else if over = n >= len(window) || n >= len(totals); over {
			break
		} else {
			window[n], totals[n] = slot, int64(e.verdict)
			n++
		}
		if met++; fault.KForKPlusOne && n == want {
			over = true
			break
		}
	}
	a.feasible, a.ranking.totals = window[:n], totals[:n]
	return met, over
}

// grow returns list with room for n elements, and all of it in its length.
func grow[T any](list []T, n int) []T {
	return slices.Grow(list, max(0, n-len(list)))[:max(n, len(list))]
}

// take adds a node to window or refused, and reports whether the walk is over.
func (a *attempt) record(slot framework.Slot, v verdict, want int) bool {
	if !v.feasible() {
		a.rejected = append(a.rejected, rejectedNode{slot, v})
		return false
	}
	if len(a.feasible) == want {
		return true
	}
	a.feasible = append(a.feasible, slot)
	a.ranking.totals = append(a.ranking.totals, int64(v))
	return fault.KForKPlusOne && len(a.feasible) == want
}

// judge puts the verdicts of a chunk together: what is remembered, and what the
// live forms say.
func (a *attempt) evaluate(chunk []framework.Slot) bool {
	a.verdicts = resize(a.verdicts, len(chunk))
	for i, slot := range chunk {
		a.verdicts[i] = a.class.entries[slot].verdict
	}
	for _, live := range a.class.forms.ActiveFilters {
		a.rejectionCodes = resize(a.rejectionCodes, len(chunk))
		a.framework.RunBatchFilter(a.State, live, chunk, a.rejectionCodes)
		for n, refusal := range a.rejectionCodes {
			if refusal == framework.NotRejected {
				continue
			}
			if refusal == framework.FilterFailed {
				return false
			}
			if v := rejectedBy(live.Index, refusal); a.verdicts[n].feasible() || v < a.verdicts[n] {
				a.verdicts[n] = v
			}
		}
	}
	return true
}

// refresh makes the verdicts of a chunk's nodes anew that changed since.
func (a *attempt) evaluateStale(chunk []framework.Slot) bool {
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	a.stale = a.stale[:0]
	if a.class.empty {
		// Not even looked at: memory that is read before it is written costs the
		// kernel twice.
		a.class.empty = false
		a.stale = append(a.stale, chunk...)
		return a.class.verdictTable.evaluate(a, a.stale)
	}
	for _, slot := range chunk {
		if e := &entries[slot]; e.version != versions[slot] && !(fault.VerdictOutlivesNode && e.version != 0) {
			a.stale = append(a.stale, slot)
		}
	}
	return len(a.stale) == 0 || a.class.verdictTable.evaluate(a, a.stale)
}

// sized returns list with n elements, whatever is in them.
func resize[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n, n+n/4)
	}
	return list[:n]
}

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
