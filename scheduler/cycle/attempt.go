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
	*Memo
	Request
	ctx   context.Context
	class *class
	// flagged are the slots of nodes that pods are nominated for; they are
	// asked in the plain way, and asked holds what they said.
	flagged []framework.Slot
	marked  []bool // by slot: those of flagged
	asked   []*fwk.Status
	// opaque are the plugins that are asked about every node that is met, and
	// failed is how one of them ended the attempt.
	opaque []framework.OpaqueFilter
	failed *fwk.Status
	// said is what PreFilter said to the pod itself; nil: its class's is good.
	said *preFiltered

	// window are the nodes that fit, refused those that do not, in the order in
	// which they were met.
	window  []framework.Slot
	refused []refusedNode

	verdicts []verdict
	// sums are the verdicts of those that are being judged.
	sums     []verdict
	stale    []framework.Slot
	refusals []framework.Refusal
	rank     ranking
}

// refusedNode is a node that does not fit, and why.
type refusedNode struct {
	slot    framework.Slot
	verdict verdict
}

// walk is Cycle.walk over what is remembered. It reports false when a plugin
// failed, which the plain way will tell of.
func (a *attempt) walk(start int) bool {
	nodes := a.snapshot.Slots()
	want := sample(a.PercentageOfNodesToScore, len(nodes))
	if a.framework.FirstWillDo() {
		want = 1
	}
	a.window, a.refused, a.rank.totals = a.window[:0], a.refused[:0], a.rank.totals[:0]
	simple := a.simple()
	for seen := 0; seen < len(nodes); {
		at := (start + seen) % len(nodes)
		// As many as are still wanted, and one more, most likely fit.
		size := min(len(nodes)-seen, len(nodes)-at, want+1-len(a.window))
		chunk := nodes[at : at+size]
		seen += size
		switch over, ok := a.meet(chunk, want, simple); {
		case !ok:
			return false
		case over:
			return true
		}
	}
	return true
}

// simple says that what is remembered is all there is to say.
func (a *attempt) simple() bool {
	return len(a.class.forms.Live) == 0 && len(a.flagged) == 0 && len(a.opaque) == 0
}

// meet sorts a chunk into window and refused, and reports whether the walk is
// over: one more fits than is wanted. It is not ok when a plugin failed.
func (a *attempt) meet(chunk []framework.Slot, want int, simple bool) (over, ok bool) {
	if simple {
		return a.takeRemembered(chunk, want)
	}
	if !a.refresh(chunk) || !a.judge(chunk) {
		return false, false
	}
	met, ok := a.askFlagged(chunk[:a.askOpaque(chunk)])
	if !ok {
		return false, false
	}
	for i, slot := range chunk[:met] {
		if a.take(slot, a.verdicts[i], want) {
			return true, true
		}
	}
	return a.failed != nil, true
}

// lookAhead is how many nodes are looked through for others that changed when one
// did: they are judged together, but most walks meet one or two.
const lookAhead = 512

// takeRemembered is meet where what is remembered is all there is to say. It
// passes over the chunk once, since most walks are this one.
func (a *attempt) takeRemembered(chunk []framework.Slot, want int) (over, ok bool) {
	if a.class.blank && !a.refresh(chunk) {
		return false, false
	}
	for {
		met, over := a.takeFresh(chunk, want)
		if chunk = chunk[met:]; over || len(chunk) == 0 {
			return over, true
		}
		if !a.refresh(chunk[:min(lookAhead, len(chunk))]) {
			return false, false
		}
	}
}

// takeFresh takes nodes up to the first that has changed. It is the innermost
// loop of most attempts, and keeps what it writes to at hand.
func (a *attempt) takeFresh(chunk []framework.Slot, want int) (met int, over bool) {
	n := len(a.window)
	window, totals := grow(a.window, want), grow(a.rank.totals, want)
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	for _, slot := range chunk {
		e := entries[slot]
		if e.version != versions[slot] && !(fault.VerdictOutlivesNode && e.version != 0) {
			break
		}
		if !e.verdict.fits() {
			a.refused = append(a.refused, refusedNode{slot, e.verdict})
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
	a.window, a.rank.totals = window[:n], totals[:n]
	return met, over
}

// grow returns list with room for n elements, and all of it in its length.
func grow[T any](list []T, n int) []T {
	return slices.Grow(list, max(0, n-len(list)))[:max(n, len(list))]
}

// take adds a node to window or refused, and reports whether the walk is over.
func (a *attempt) take(slot framework.Slot, v verdict, want int) bool {
	if !v.fits() {
		a.refused = append(a.refused, refusedNode{slot, v})
		return false
	}
	if len(a.window) == want {
		return true
	}
	a.window = append(a.window, slot)
	a.rank.totals = append(a.rank.totals, int64(v))
	return fault.KForKPlusOne && len(a.window) == want
}

// judge puts the verdicts of a chunk together: what is remembered, and what the
// live forms say.
func (a *attempt) judge(chunk []framework.Slot) bool {
	a.verdicts = sized(a.verdicts, len(chunk))
	for i, slot := range chunk {
		a.verdicts[i] = a.class.entries[slot].verdict
	}
	for _, live := range a.class.forms.Live {
		a.refusals = sized(a.refusals, len(chunk))
		a.framework.AskFilter(a.State, live, chunk, a.refusals)
		for n, refusal := range a.refusals {
			if refusal == framework.Fits {
				continue
			}
			if refusal == framework.Broken {
				return false
			}
			if v := refusedBy(live.Place, refusal); a.verdicts[n].fits() || v < a.verdicts[n] {
				a.verdicts[n] = v
			}
		}
	}
	return true
}

// refresh makes the verdicts of a chunk's nodes anew that changed since.
func (a *attempt) refresh(chunk []framework.Slot) bool {
	versions, entries := a.snapshot.Columns().Versions, a.class.entries
	a.stale = a.stale[:0]
	if a.class.blank {
		// Not even looked at: memory that is read before it is written costs the
		// kernel twice.
		a.class.blank = false
		a.stale = append(a.stale, chunk...)
		return a.class.sheet.judge(a, a.stale)
	}
	for _, slot := range chunk {
		if e := &entries[slot]; e.version != versions[slot] && !(fault.VerdictOutlivesNode && e.version != 0) {
			a.stale = append(a.stale, slot)
		}
	}
	return len(a.stale) == 0 || a.class.sheet.judge(a, a.stale)
}

// sized returns list with n elements, whatever is in them.
func sized[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n, n+n/4)
	}
	return list[:n]
}
