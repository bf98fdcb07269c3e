package queue

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/podgroups"
)

// ProfileKey describes all that decides about the waiting pods of a profile, in
// parts that a swap compares one by one. Parts that are equal decide alike.
type ProfileKey struct {
	// Plugins holds, for each plugin that can refuse a pod or gate it, the extension
	// points at which it does so and its arguments. Nil means unknown: a swap then
	// concerns all pods.
	Plugins map[string]string
	// PreEnqueue are those of the plugins that run at PreEnqueue.
	PreEnqueue sets.Set[string]
	// PostFilter describes what makes room for a pod that fits no node.
	PostFilter string
	// NodeSelection describes what chooses one of the feasible nodes.
	NodeSelection string
	// Holds describes which pods the profile holds.
	Holds string
	// Explanations describes what is reported about waiting pods beside their status.
	Explanations string
}

// profileDiff is the difference between two ProfileKeys, as far as it can change
// what happens to a waiting pod.
type profileDiff struct {
	// all is true when one of the keys is unknown: everything may differ.
	all bool
	// plugins are those that were changed or removed.
	plugins sets.Set[string]
	// preEnqueue is true when a PreEnqueue plugin was added or changed: it may gate
	// pods that passed before.
	preEnqueue bool
	// postFilter is true when preemption may make room where it could not before.
	postFilter bool
	// nodeSelection is true when another node may be chosen.
	nodeSelection bool
	// holds is true when pods may be held that were not, or the other way round.
	holds bool
	// groups is true when the pods of a group waited on their own and are to wait together,
	// or the other way round.
	groups bool
	// explanations is true when more, or less, is reported about waiting pods.
	explanations bool
}

// diff returns what differs between old and r. A nil old means that the pods were
// evaluated under no rules that still count: everything may differ.
func (r *Rules) diff(old *Rules) profileDiff {
	if old == r {
		return profileDiff{}
	}
	if old == nil || old.Key.Plugins == nil || r.Key.Plugins == nil {
		return profileDiff{all: true}
	}
	before, after := &old.Key, &r.Key
	d := profileDiff{
		groups:        old.Groups != r.Groups,
		plugins:       sets.New[string](),
		postFilter:    after.PostFilter != "" && after.PostFilter != before.PostFilter,
		nodeSelection: after.NodeSelection != before.NodeSelection,
		holds:         after.Holds != before.Holds,
		explanations:  before.Explanations != after.Explanations,
	}
	for name, text := range before.Plugins {
		if now, ok := after.Plugins[name]; !ok || now != text {
			d.plugins.Insert(name)
		}
	}
	for name := range after.PreEnqueue {
		if !before.PreEnqueue.Has(name) || d.plugins.Has(name) {
			d.preEnqueue = true
		}
	}
	return d
}

// lastDiff is the difference that was asked for last: nearly all pods of a profile
// were evaluated under the same rules.
type lastDiff struct {
	old, now *Rules
	profileDiff
}

// between returns what differs between old and now.
func (l *lastDiff) between(old, now *Rules) profileDiff {
	if l.now != now || l.old != old {
		*l = lastDiff{old, now, now.diff(old)}
	}
	return l.profileDiff
}

// strategyFor returns how to requeue p after a swap with this difference;
// queueSkip when the swap does not concern p.
func (d profileDiff) strategyFor(p *Entity) queueingStrategy {
	concerned := d.all
	if _, grouped := podgroups.KeyOf(p.pod); d.groups && grouped && p.place != InFlight {
		return queueImmediately
	}
	switch p.place {
	case InFlight:
		// Its attempt began under the rules before the swap.
		concerned = true
	case Active, Backoff:
		concerned = concerned || d.preEnqueue || d.holds
	case Gated:
		concerned = concerned || d.plugins.Has(p.gate)
	case Unschedulable:
		concerned = concerned || d.explanations || d.affects(p)
	case Held:
		concerned = concerned || d.holds || p.held.Reason == Quarantined
	}
	switch {
	case concerned:
		return p.swapStrategy()
	case d.holds, d.preEnqueue && p.place == Unschedulable:
		return queueRecheck
	}
	return queueSkip
}

// affects reports whether p, which was refused, may be accepted now. Plugins that
// were added do not count: they can only refuse more nodes. There are two
// exceptions: PostFilter plugins, which may make room, and, for a pod that was
// refused after a node was chosen, whatever may choose another node.
func (d profileDiff) affects(p *Entity) bool {
	if p.nodeChosen && d.nodeSelection || !p.nodeChosen && d.postFilter {
		return true
	}
	for plugin := range p.furtherRejectors {
		if d.plugins.Has(plugin) {
			return true
		}
	}
	return len(p.rejectors) == 0 && len(p.pending) == 0 || slices.ContainsFunc(p.blockingPlugins(), d.plugins.Has)
}

// swapStrategy returns how a swap that concerns p requeues it: a pod that was
// backing off goes on backing off, even if it was held in between. A pod that was
// quarantined has waited long enough.
func (p *Entity) swapStrategy() queueingStrategy {
	if p.held.Reason == Quarantined || p.place == Gated || p.place == Active {
		return queueImmediately
	}
	return queueAfterBackoff
}
