package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/fault"
)

// Makeup tells apart what decides about the pods of a profile, so that a swap
// knows whom it touches. What is equal decides alike.
type ProfileKey struct {
	// Plugins says of each plugin that can keep a pod from a node, or from being
	// tried, at which points it does so and with which arguments; nil: nobody
	// knows, and everybody is touched.
	Plugins map[string]string
	// Gates are those of them that stand at PreEnqueue.
	PreEnqueue sets.Set[string]
	// Room is who makes room for a pod that fits nowhere, and how.
	PostFilter string
	// Choice is by what one of the nodes is chosen.
	NodeSelection string
	// Holds is what pods are held for.
	Holds string
	// Told is what is told of pods that wait, beside their status.
	Explanations string
}

// change is how two Makeups differ, as far as that can move a pod that waits.
type profileDiff struct {
	// all says that nothing is known to be the same.
	all bool
	// plugins are those that changed or are gone.
	plugins sets.Set[string]
	// gates: one came or changed, which may keep out who was let in.
	preEnqueue bool
	// room: it may be made where none could be made.
	postFilter bool
	// choice: another node may be chosen.
	nodeSelection bool
	// holds: pods may be held that were not, or the other way round.
	holds bool
	// told: more is told of pods that wait, or less.
	explanations bool
}

// since says what is different under r from what was under old; nil: nothing
// was.
func (r *Rules) diff(old *Rules) profileDiff {
	if old == r {
		return profileDiff{}
	}
	if old == nil || old.Key.Plugins == nil || r.Key.Plugins == nil {
		return profileDiff{all: true}
	}
	was, is := &old.Key, &r.Key
	c := profileDiff{
		plugins:       sets.New[string](),
		postFilter:    is.PostFilter != "" && is.PostFilter != was.PostFilter,
		nodeSelection: is.NodeSelection != was.NodeSelection,
		holds:         is.Holds != was.Holds,
		explanations:  was.Explanations != is.Explanations && !fault.ToldAsBefore,
	}
	for name, text := range was.Plugins {
		if now, ok := is.Plugins[name]; !ok || now != text {
			c.plugins.Insert(name)
		}
	}
	for name := range is.PreEnqueue {
		if !was.PreEnqueue.Has(name) || c.plugins.Has(name) {
			c.preEnqueue = true
		}
	}
	return c
}

// means says what the change means for p: whether it is asked about again, and
// how eagerly it is wanted then.
func (c profileDiff) strategyFor(p *Pod) queueingStrategy {
	asked := c.all
	switch p.place {
	case InFlight:
		// Its attempt began under what runs no more.
		asked = true
	case Active, Backoff:
		asked = asked || c.preEnqueue || c.holds
	case Gated:
		asked = asked || c.plugins.Has(p.gate)
	case Unschedulable:
		asked = asked || c.explanations || c.affects(p)
	case Held:
		asked = asked || c.holds || p.held.Reason == Quarantined
	}
	switch {
	case asked:
		return p.swapStrategy()
	case c.holds, c.preEnqueue && p.place == Unschedulable:
		return queueRecheck
	}
	return queueSkip
}

// touches says whether the verdict on p, which was refused, may be another
// now. What keeps a pod from one node more makes it fit nowhere: plugins that
// came do not count, unless they make room, or p had a node that was chosen and
// then refused: another one may be chosen.
func (c profileDiff) affects(p *Pod) bool {
	if fault.TouchedPodSleeps {
		return false
	}
	if p.nodeChosen && c.nodeSelection && !fault.ChosenNodeForgotten || !p.nodeChosen && c.postFilter {
		return true
	}
	if !fault.InTheWayForgotten && p.furtherRejectors.HasAny(c.plugins.UnsortedList()...) {
		return true
	}
	return len(p.rejectors) == 0 && len(p.pending) == 0 || slices.ContainsFunc(p.blockingPlugins(), c.plugins.Has)
}

// wanted is how eagerly a swap tries p again: one that sat out a backoff goes
// on sitting it out, though it was parked in between. One that was set aside has
// waited long enough.
func (p *Pod) swapStrategy() queueingStrategy {
	if p.held.Reason == Quarantined || p.place == Gated || p.place == Active || fault.BackoffEndsWithASwap {
		return queueImmediately
	}
	return queueAfterBackoff
}
