// Package cells is the table of a hot swap: the places where a pod can be, and
// the changes of its profile that can come then. It says what each of them is
// and what must come of it. The scheduler's own tests play all cells in memory,
// test/scenarios/swap plays many of them on a real API server.
package cells

import (
	"errors"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/probe"
)

// Place is one where a pod can be when its profile changes. In the zero Place it
// comes after the change.
type Place struct {
	// Where the queue has the pod then.
	Where queue.Place
	// Point is where a Judge keeps or refuses the pod; empty: nowhere. Bind is
	// the API server's, which keeps it.
	Point string
	// Stuck says that the pod is kept there until it is to go on, and Then what
	// is answered, at that time or at once.
	Blocks bool
	Answer probe.StatusFunc
	// Permit is what becomes of a pod that waits there, when it is to go on.
	Permit Permit
	// Begun says that the pod is on its way, and is bound by who began it.
	Committed bool
	// Rests is where it is when it went on, and nothing changed.
	EndsIn queue.Place
	// BacksOff says that an error is behind it, or before it, whose backoff is
	// sat out whatever comes.
	BacksOff bool
	// Attempts are those that it has when it is bound.
	Attempts int
}

// Permit is what a pod that waits on Permit is told.
type Permit string

// What it may be told.
const (
	Allow  Permit = "Allow"
	Reject Permit = "Reject"
)

// Popped is where a pod is that the loop took and has not asked about yet: the
// queue calls it in flight.
const Popped = "popped"

// ErrBroken is the error of a Judge that breaks.
var ErrBroken = errors.New("broken, as told")

// Unseen says that the pod comes after the change.
func (p Place) ArrivesAfter() bool { return p.Where == "" }

// StopsLoop says that while the pod is there the loop does nothing else.
func (p Place) BlocksLoop() bool {
	inLoop := p.Point == "Filter" || p.Point == "Reserve"
	return p.Where == queue.Active || p.Where == queue.InFlight && (p.Point == "" || inLoop)
}

// Places are the twelve places, three of them with both their outcomes.
var Places = map[string]Place{
	"not seen": {Attempts: 1},
	"gated":    {Where: queue.Gated, Point: "PreEnqueue", Answer: probe.Reject("shut"), EndsIn: queue.Gated, Attempts: 1},
	"active":   {Where: queue.Active, Attempts: 1},
	Popped:     {Where: queue.InFlight, Attempts: 1},
	"in the cycle, and fits": {
		Where: queue.InFlight, Point: "Filter", Blocks: true, Committed: true, Attempts: 1,
	},
	"in the cycle, and fits nowhere": {
		Where: queue.InFlight, Point: "Filter", Blocks: true, Answer: probe.Reject("full"), EndsIn: queue.Unschedulable, Attempts: 2,
	},
	"assumed": {Where: queue.InFlight, Point: "Reserve", Blocks: true, Committed: true, Attempts: 1},
	"waiting on Permit, and allowed": {
		Where: queue.InFlight, Point: "Permit", Answer: probe.Wait, Permit: Allow, Committed: true, Attempts: 1,
	},
	"waiting on Permit, and rejected": {
		Where: queue.InFlight, Point: "Permit", Answer: probe.Wait, Permit: Reject, EndsIn: queue.Unschedulable, Attempts: 2,
	},
	"in PreBind, which succeeds": {Where: queue.InFlight, Point: "PreBind", Blocks: true, Committed: true, Attempts: 1},
	"in PreBind, which fails": {
		Where: queue.InFlight, Point: "PreBind", Blocks: true, Answer: probe.Fail(ErrBroken),
		EndsIn: queue.Backoff, BacksOff: true, Attempts: 2,
	},
	"binding": {Where: queue.InFlight, Point: "Bind", Blocks: true, Committed: true, Attempts: 1},
	"backing off": {
		Where: queue.Backoff, Point: "Filter", Answer: probe.Fail(ErrBroken), EndsIn: queue.Backoff, BacksOff: true, Attempts: 2,
	},
	"unschedulable": {
		Where: queue.Unschedulable, Point: "Filter", Answer: probe.Reject("full"), EndsIn: queue.Unschedulable, Attempts: 2,
	},
	"parked": {Where: queue.Held, Attempts: 1},
}
