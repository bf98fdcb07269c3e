// Package swapmatrix is the swap matrix: the places where a pod can be when its profile changes,
// and the changes that can come. It defines each of them and the expected result. The
// scheduler's own tests play all cells in memory; test/integration/scenarios/swap plays many of them on
// a real API server.
package swapmatrix

import (
	"errors"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/probe"
)

// Place is where a pod can be when its profile changes. In the zero Place the pod is created
// after the change.
type Place struct {
	// Where is the pod's place in the queue at that time.
	Where queue.Place
	// Point is the extension point at which Decider blocks or rejects the pod; empty for
	// none. At Bind the API server blocks.
	Point string
	// Blocks says that the call blocks until the test releases it. Answer is the call's
	// result, then or at once.
	Blocks bool
	Answer probe.StatusFunc
	// Permit is the decision on a waiting pod when the test releases it.
	Permit Permit
	// Committed says that the generation that began the attempt also binds the pod.
	Committed bool
	// EndsIn is the pod's place after its release if the profile does not change.
	EndsIn queue.Place
	// BacksOff says that the pod has an error, before or after its release, and waits for
	// its backoff whatever changes.
	BacksOff bool
	// Attempts is the number of attempts until the pod is bound; 0 if it is not determined.
	Attempts int
}

// Permit is the decision on a pod that waits on Permit.
type Permit string

// The decisions.
const (
	Allow  Permit = "Allow"
	Reject Permit = "Reject"
)

// Popped is the place of a pod that the loop has popped and not yet scheduled. The queue
// counts it as in flight.
const Popped = "popped"

// ErrBroken is the error of a Decider that fails.
var ErrBroken = errors.New("the plugin fails")

// ArrivesAfter reports whether the pod is created after the change.
func (p Place) ArrivesAfter() bool { return p.Where == "" }

// BlocksLoop reports whether the loop does nothing else while the pod is there.
func (p Place) BlocksLoop() bool {
	inLoop := p.Point == "Filter" || p.Point == "Reserve" || p.Point == "Permit" && p.Blocks
	return p.Where == queue.Active || p.Where == queue.InFlight && (p.Point == "" || inLoop)
}

// Places are the twelve places, three of them with two outcomes. test/integration/scenarios/swap selects
// cells by the order of the names.
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
	"paused, and held": {Where: queue.Held, Attempts: 1},
}

// GangPlaces are the places of the third of four pods of a gang, while the others are as far as
// they can be without it. However the profile changes, one generation binds all four. A group of
// which too few pods fit waits for its backoff.
var GangPlaces = map[string]Place{
	"in the cycle, and fits":         Places["in the cycle, and fits"],
	"in the cycle, and fits nowhere": Places["in the cycle, and fits nowhere"],
	"gated":                          Places["gated"],
	"backing off, since one fits nowhere": {
		Where: queue.Backoff, Point: "Filter", Answer: probe.Reject("full"), EndsIn: queue.Backoff, BacksOff: true,
	},
	"waiting on Permit, and allowed": Places["waiting on Permit, and allowed"],
	"in PreBind, which succeeds":     Places["in PreBind, which succeeds"],
	"binding":                        Places["binding"],
	"in Permit, behind two that are assumed": {
		Where: queue.InFlight, Point: "Permit", Blocks: true, Committed: true, Attempts: 1,
	},
	"refused by Permit, and three wait there for it": {
		Where: queue.Backoff, Point: "Permit", Answer: probe.Reject("shut"), EndsIn: queue.Backoff, BacksOff: true,
	},
}
