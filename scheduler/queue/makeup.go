package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/fault"
)

// Makeup tells apart what decides about the pods of a profile, so that a swap
// knows whom it touches. What is equal decides alike.
type Makeup struct {
	// Plugins says of each plugin that can keep a pod from a node, or from being
	// tried, at which points it does so and with which arguments; nil: nobody
	// knows, and everybody is touched.
	Plugins map[string]string
	// Gates are those of them that stand at PreEnqueue.
	Gates sets.Set[string]
	// Room is who makes room for a pod that fits nowhere, and how.
	Room string
	// Choice is by what one of the nodes is chosen.
	Choice string
	// Holds is what pods are held for.
	Holds string
	// Told is what is told of pods that wait, beside their status.
	Told string
}

// change is how two Makeups differ, as far as that can move a pod that waits.
type change struct {
	// all says that nothing is known to be the same.
	all bool
	// plugins are those that changed or are gone.
	plugins sets.Set[string]
	// gates: one came or changed, which may keep out who was let in.
	gates bool
	// room: it may be made where none could be made.
	room bool
	// choice: another node may be chosen.
	choice bool
	// holds: pods may be held that were not, or the other way round.
	holds bool
	// told: more is told of pods that wait, or less.
	told bool
}

// since says what is different under r from what was under old; nil: nothing
// was.
func (r *Rules) since(old *Rules) change {
	if old == r {
		return change{}
	}
	if old == nil || old.Makeup.Plugins == nil || r.Makeup.Plugins == nil {
		return change{all: true}
	}
	was, is := &old.Makeup, &r.Makeup
	c := change{
		plugins: sets.New[string](),
		room:    is.Room != "" && is.Room != was.Room,
		choice:  is.Choice != was.Choice,
		holds:   is.Holds != was.Holds,
		told:    was.Told != is.Told && !fault.ToldAsBefore,
	}
	for name, text := range was.Plugins {
		if now, ok := is.Plugins[name]; !ok || now != text {
			c.plugins.Insert(name)
		}
	}
	for name := range is.Gates {
		if !was.Gates.Has(name) || c.plugins.Has(name) {
			c.gates = true
		}
	}
	return c
}

// means says what the change means for p: whether it is asked about again, and
// how eagerly it is wanted then.
func (c change) means(p *Pod) strategy {
	asked := c.all
	switch p.where {
	case InFlight:
		// Its attempt began under what runs no more.
		asked = true
	case Active, Backoff:
		asked = asked || c.gates || c.holds
	case Gated:
		asked = asked || c.plugins.Has(p.gate)
	case Unschedulable:
		asked = asked || c.told || c.touches(p)
	case Parked:
		asked = asked || c.holds || p.held.Reason == SetAside
	}
	switch {
	case asked:
		return p.wanted()
	case c.holds, c.gates && p.where == Unschedulable:
		return unlessKept
	}
	return skip
}

// touches says whether the verdict on p, which was refused, may be another
// now. What keeps a pod from one node more makes it fit nowhere: plugins that
// came do not count, unless they make room, or p had a node that was chosen and
// then refused: another one may be chosen.
func (c change) touches(p *Pod) bool {
	if fault.TouchedPodSleeps {
		return false
	}
	if p.chosen && c.choice && !fault.ChosenNodeForgotten || !p.chosen && c.room {
		return true
	}
	if !fault.InTheWayForgotten && p.besides.HasAny(c.plugins.UnsortedList()...) {
		return true
	}
	return len(p.rejectors) == 0 && len(p.pending) == 0 || slices.ContainsFunc(p.awaited(), c.plugins.Has)
}

// wanted is how eagerly a swap tries p again: one that sat out a backoff goes
// on sitting it out, though it was parked in between. One that was set aside has
// waited long enough.
func (p *Pod) wanted() strategy {
	if p.held.Reason == SetAside || p.where == Gated || p.where == Active || fault.BackoffEndsWithASwap {
		return immediately
	}
	return afterBackoff
}
