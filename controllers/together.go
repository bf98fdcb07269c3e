package controllers

import (
	"time"

	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/fault"
)

// A profile and the PluginConfigs that it references are several objects, which kubectl
// apply writes one after another. What they resolve to in between is intended by no
// one: it is neither built nor stored as a revision.
const (
	// settlePeriod is for how long neither a profile nor its PluginConfigs may have
	// changed before what they resolve to replaces what runs.
	settlePeriod = 500 * time.Millisecond
	// maxSettlePeriod is for how long such changes delay a replacement at most.
	maxSettlePeriod = 4 * settlePeriod
)

// unsettledChange is a change of a profile that waits for the objects that are applied
// with it.
type unsettledChange struct {
	// hash is what the profile resolved to at the last reconcile, since the time since.
	hash  string
	since time.Time
	// first is when the profile first resolved to something else than what runs.
	first time.Time
}

// settleDelay returns how long to wait until what the profile resolves to may replace
// what runs; 0 when it may now. A profile does not wait when nothing runs, or when it
// neither references a PluginConfig nor runs with one. Reconciles of one profile must
// not overlap.
func (r *profileReconciler) settleDelay(v observation) time.Duration {
	name := v.profile.Name
	if v.verdict != history.Run || v.running == nil || v.running.Blueprint.Hash == v.blueprint.Hash ||
		len(configRefNames(v.profile)) == 0 && len(v.running.Blueprint.Configs) == 0 || fault.AppliedApart {
		r.unsettledChanges.Delete(name)
		return 0
	}
	now := r.options.Clock.Now()
	change := unsettledChange{hash: v.blueprint.Hash, since: now, first: now}
	if stored, ok := r.unsettledChanges.Load(name); ok {
		before := stored.(unsettledChange)
		change.first = before.first
		if before.hash == change.hash {
			change.since = before.since
		}
	}
	r.unsettledChanges.Store(name, change)
	return max(0, min(change.since.Add(settlePeriod).Sub(now), change.first.Add(maxSettlePeriod).Sub(now)))
}
