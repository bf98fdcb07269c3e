package cycle

import (
	"context"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// attempt is one attempt of a pod with a known class. Later attempts reuse its
// slices.
type attempt struct {
	*EquivalenceCache
	Request
	ctx   context.Context
	class *podClass
	// nominatedSlots are the slots of nodes to which pods are nominated. The
	// reference evaluates them, and statuses holds its rejections.
	nominatedSlots []counts.Slot
	isNominated    []bool // by slot: whether nominatedSlots has it
	nominations    versionedNominations
	ownNode        string // for which the pod is nominated; "" for none
	statuses       []*fwk.Status
	// opaque are the Filter plugins to call for every visited node. failure is
	// the error of a plugin that ended the attempt.
	opaque  []framework.OpaqueFilter
	failure *fwk.Status
	// preFilterResult is set if PreFilter ran for the pod itself; nil if the
	// result of its class is used.
	preFilterResult *preFilterResult

	// feasible are the nodes that fit and rejected the others, in the order in
	// which they were visited.
	feasible []counts.Slot
	rejected []rejectedNode

	verdicts []verdict
	// sums are the verdicts of the slots that verdictTable.evaluate works on.
	sums           []verdict
	stale          []counts.Slot
	rejectionCodes []podclass.RejectionCode
	ranking        ranking
}

// rejectedNode is a node that does not fit, with the reason.
type rejectedNode struct {
	slot    counts.Slot
	verdict verdict
}

// findFeasibleNodes is Cycle.findNodesThatPassFilters with cached verdicts. It
// returns false if a plugin failed; the reference then returns the error.
func (a *attempt) findFeasibleNodes(start int) bool {
	nodes := a.snapshot.Slots()
	want := numFeasibleNodesToFind(a.PercentageOfNodesToScore, len(nodes))
	if a.framework.FirstFeasibleNodeSuffices() {
		want = 1
	}
	a.feasible, a.rejected, a.ranking.totals = a.feasible[:0], a.rejected[:0], a.ranking.totals[:0]
	cacheOnly := a.usesCacheOnly()
	for seen := 0; seen < len(nodes); {
		at := (start + seen) % len(nodes)
		// Most nodes fit, so this chunk most likely contains the last node
		// needed and the one after it.
		size := min(len(nodes)-seen, len(nodes)-at, want+1-len(a.feasible))
		chunk := nodes[at : at+size]
		seen += size
		switch over, ok := a.visitChunk(chunk, want, cacheOnly); {
		case !ok:
			return false
		case over:
			return true
		}
	}
	return true
}

// usesCacheOnly reports whether every verdict of the attempt comes from the
// verdict table.
func (a *attempt) usesCacheOnly() bool {
	return len(a.class.forms.ActiveFilters) == 0 && len(a.nominatedSlots) == 0 && len(a.opaque) == 0
}

// visitChunk appends the nodes of a chunk to feasible or rejected. over reports
// that one more node fits than is wanted, ok that no plugin failed.
func (a *attempt) visitChunk(chunk []counts.Slot, want int, cacheOnly bool) (over, ok bool) {
	if cacheOnly {
		return a.visitChunkFromCache(chunk, want)
	}
	if !a.evaluateStale(chunk) || !a.evaluate(chunk) {
		return false, false
	}
	visited, ok := a.filterNominatedNodes(chunk[:a.runOpaqueFilters(chunk)])
	if !ok {
		return false, false
	}
	for i, slot := range chunk[:visited] {
		if a.record(slot, a.verdicts[i], want) {
			return true, true
		}
	}
	return a.failure != nil, true
}

// lookAhead is the number of nodes searched for stale verdicts once one is
// found. Stale nodes are evaluated together, but most attempts have only one or
// two.
const lookAhead = 512

// visitChunkFromCache is visitChunk for usesCacheOnly. Most attempts take this
// path, so it passes over the chunk only once.
func (a *attempt) visitChunkFromCache(chunk []counts.Slot, want int) (over, ok bool) {
	if a.class.empty && !a.evaluateStale(chunk) {
		return false, false
	}
	for {
		visited, over := a.visitFreshNodes(chunk, want)
		if chunk = chunk[visited:]; over || len(chunk) == 0 {
			return over, true
		}
		if !a.evaluateStale(chunk[:min(lookAhead, len(chunk))]) {
			return false, false
		}
	}
}

// visitFreshNodes visits nodes up to the first one with a stale verdict, and
// returns how many it visited. It is the innermost loop of most attempts, so it
// keeps in local variables what it writes.
func (a *attempt) visitFreshNodes(chunk []counts.Slot, want int) (visited int, over bool) {
	n := len(a.feasible)
	window, totals := grow(a.feasible, want), grow(a.ranking.totals, want)
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	for _, slot := range chunk {
		e := entries[slot]
		if e.version != versions[slot] {
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
		visited++
	}
	a.feasible, a.ranking.totals = window[:n], totals[:n]
	return visited, over
}

// grow returns list with its capacity raised to n and its length to the maximum
// of both.
func grow[T any](list []T, n int) []T {
	return slices.Grow(list, max(0, n-len(list)))[:max(n, len(list))]
}

// record appends a node to feasible or rejected. It reports whether one more
// node fits than is wanted; that node is not appended.
func (a *attempt) record(slot counts.Slot, v verdict, want int) bool {
	if !v.feasible() {
		a.rejected = append(a.rejected, rejectedNode{slot, v})
		return false
	}
	if len(a.feasible) == want {
		return true
	}
	a.feasible = append(a.feasible, slot)
	a.ranking.totals = append(a.ranking.totals, int64(v))
	return false
}

// evaluate sets verdicts for a chunk from the verdict table and the active
// uncached filters. It returns false if a plugin failed.
func (a *attempt) evaluate(chunk []counts.Slot) bool {
	a.verdicts = resize(a.verdicts, len(chunk))
	for i, slot := range chunk {
		a.verdicts[i] = a.class.entries[slot].verdict
	}
	for _, live := range a.class.forms.ActiveFilters {
		a.rejectionCodes = resize(a.rejectionCodes, len(chunk))
		live.Run(a.framework, a.State, chunk, a.rejectionCodes)
		for n, code := range a.rejectionCodes {
			if code == podclass.NotRejected {
				continue
			}
			if code == podclass.FilterFailed {
				return false
			}
			if v := rejectedBy(live.Index, code); a.verdicts[n].feasible() || v < a.verdicts[n] {
				a.verdicts[n] = v
			}
		}
	}
	return true
}

// evaluateStale evaluates the nodes of a chunk whose version has changed. It
// returns false if a plugin failed.
func (a *attempt) evaluateStale(chunk []counts.Slot) bool {
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	a.stale = a.stale[:0]
	if a.class.empty {
		// Without reading the entries: memory that is read before its first
		// write costs two page faults.
		a.class.empty = false
		a.stale = append(a.stale, chunk...)
		return a.class.verdictTable.evaluate(a, a.stale)
	}
	for _, slot := range chunk {
		if e := &entries[slot]; e.version != versions[slot] {
			a.stale = append(a.stale, slot)
		}
	}
	return len(a.stale) == 0 || a.class.verdictTable.evaluate(a, a.stale)
}

// resize returns list with n elements of any content.
func resize[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n, n+n/4)
	}
	return list[:n]
}

// runOpaqueFilters runs the opaque plugins for the nodes of a chunk that no
// earlier plugin of the chain rejects. It returns the number of visited nodes,
// which is smaller if a plugin failed.
func (a *attempt) runOpaqueFilters(chunk []counts.Slot) int {
	if len(a.opaque) == 0 {
		return len(chunk)
	}
	for n, slot := range chunk {
		if a.isNominated[slot] {
			continue // filterNominatedNodes runs all plugins for it
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

// addStatus stores a status of this attempt and returns a verdict for it.
func (a *attempt) addStatus(status *fwk.Status) verdict {
	a.statuses = append(a.statuses, status)
	return statusBit | verdict(len(a.statuses)-1)
}
