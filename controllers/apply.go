package controllers

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// reconcileProfile compiles the spec and runs it, as far as it is valid, can be built
// and passes its trial. Where it does not and nothing runs yet, reconcileProfile runs a
// revision of the profile's history instead. A pause takes effect before the swap and
// its end after it, so that no pod is placed by a Blueprint that was meant to wait. A
// pause also takes effect when the rest of the spec is rejected or a request fails, since it
// does not depend on them.
func (r *profileReconciler) reconcileProfile(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (observation, error) {
	v := observation{profile: p, configs: configs}
	if v.paused() {
		r.options.Applier.SetPaused(p.Name, true)
	}
	err := r.recordCrashes(ctx)
	if err != nil {
		return v, err
	}
	if v.history, err = r.options.History.Read(ctx, p.Name); err != nil {
		return v, err
	}
	v.running = r.running(p.Name)
	if v.rejection, err = r.servedElsewhere(ctx, p); err != nil {
		return v, err
	}
	v.servedElsewhere = v.rejection != nil
	if !v.servedElsewhere {
		v.blueprint, v.rejection = r.compileProfile(p, configs)
	}
	if err := r.refreshHistory(ctx, v); err != nil {
		return v, err
	}
	var candidates []history.Candidate
	input := r.chooseInput(v)
	v.blame = input.Blame()
	v.verdict, candidates = history.Choose(input)
	if v.settleAfter = r.settleDelay(v); v.settleAfter > 0 {
		return v, nil
	}
	if v.servedElsewhere {
		candidates = nil // an earlier revision must not serve those pods either
	}
	last, _ := r.options.Applier.LastTrial(p.Name)
	v.attempt = r.beginAttempt(v)
	if v.verdict == history.AwaitingApproval && r.isLeader() {
		v.recordFailure(v.attempt.run(tried{v.blueprint.Hash, true}, func() error { return r.tryUnapproved(ctx, v) }))
	}
	r.applyFirst(ctx, &v, candidates)
	if !v.paused() {
		r.options.Applier.SetPaused(p.Name, v.paused())
	}
	v.running = r.running(p.Name)
	r.addTrial(&v, last)
	v.now = r.options.Clock.Now()
	r.holdPods(v)
	return v, nil
}

// refreshHistory adds to the history what other processes did and what the user asked
// for: whether another profile proved one of the hashes, which leading processes ended
// without a graceful shutdown, and whether the user retries the spec.
func (r *profileReconciler) refreshHistory(ctx context.Context, v observation) error {
	hash := ""
	if v.blueprint != nil {
		hash = v.blueprint.Hash
	}
	if err := r.options.History.LoadProvedHashes(ctx, v.history, hash); err != nil {
		return err
	}
	if r.isLeader() {
		r.options.History.CountDeaths(v.history)
		r.options.History.ApplyRetry(v.history, hash, v.profile.Annotations[v1alpha1.AnnotationRetry])
	}
	return nil
}

// applyFirst applies the first candidate that can be applied. When something runs
// already, it tries the first one only. It does not apply a blamed candidate before its
// rebuild is due.
func (r *profileReconciler) applyFirst(ctx context.Context, v *observation, candidates []history.Candidate) {
	for _, candidate := range candidates {
		if candidate.BlamedFor != nil {
			if v.rebuildAfter = r.rebuildDelay(ctx, v.profile.Name, candidate.BlamedFor); v.rebuildAfter > 0 || v.deferred != nil {
				return
			}
		}
		err := v.attempt.run(tried{candidate.Hash, false}, func() error { return r.tryCandidate(ctx, *v, candidate) })
		if err == nil {
			return
		}
		switch {
		case candidate.Revision == nil:
			v.recordFailure(err)
		case isDeferred(err):
			v.deferred = err
			return
		default:
			if v.attempt.isNew() {
				log.FromContext(ctx).Error(err, "A revision could not be built", "revision", candidate.Revision.Name)
			}
			v.recordFallbackFailure(candidate, err)
		}
		if v.running != nil {
			return
		}
	}
}

func (r *profileReconciler) compileProfile(p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (*compile.Blueprint, *compile.Rejection) {
	return r.compile(compile.Input{Profile: p, Configs: configs, Registry: r.options.Registry, Version: r.options.Version, Extenders: r.options.Extenders})
}

func (r *profileReconciler) running(name string) *profile.Running {
	if running, ok := r.options.Applier.Running(name); ok {
		return &running
	}
	return nil
}

func (r *profileReconciler) chooseInput(v observation) history.ChooseInput {
	input := history.ChooseInput{
		Profile: v.profile, Desired: v.blueprint, Revisions: v.history.Revisions, Durable: v.history.Durable(), Follower: !r.isLeader(),
		BuiltIn: r.allBuiltIn,
		Compile: func(revision *history.Revision) *compile.Blueprint {
			b, _ := r.compileProfile(revision.Profile, nil)
			return b
		},
	}
	if v.blueprint != nil {
		input.Proved = v.history.Proved(v.blueprint.Hash)
	}
	if v.running != nil {
		input.RunningHash = v.running.Blueprint.Hash
	}
	return input
}

// allBuiltIn reports whether all plugins of a Blueprint are built in.
func (r *profileReconciler) allBuiltIn(b *compile.Blueprint) bool {
	return !slices.ContainsFunc(pluginNames(b), func(plugin string) bool { return !r.options.Registry[plugin].InTree })
}

// tryCandidate applies a candidate. The leader records it in the history first, unless
// it already runs and is recorded. Each process remembers it, so that as the leader it can
// record it again.
func (r *profileReconciler) tryCandidate(ctx context.Context, v observation, candidate history.Candidate) error {
	runs := v.running != nil && v.running.Blueprint.Hash == candidate.Hash
	skipTrial := runs || candidate.SkipTrial
	if err := r.options.Applier.CheckPlace(v.profile.Name); err != nil && !runs {
		return err // it is tried each second: no revision is stored and deleted for that
	}
	revision, err := revisionSpecFor(v, candidate)
	if err != nil {
		return err
	}
	undo := func(context.Context) {}
	if r.isLeader() && (!runs || !v.history.Contains(revision)) {
		undo = r.options.History.Begin(ctx, v.history, revision)
	}
	if err := r.trialAndApply(ctx, candidate.Blueprint, skipTrial); err != nil {
		undo(ctx)
		return err
	}
	r.applied.Store(v.profile.Name, revision)
	return nil
}

// restoreRevision records what runs in the history again where its revision is missing: others
// may delete ControllerRevisions. A spec that runs is recorded by tryCandidate; this is for what
// runs in place of one. A history that could not be stored in this reconcile is not tried again.
// What runs of a deleted profile of the name is no revision of this one.
func (r *profileReconciler) restoreRevision(ctx context.Context, v observation) {
	stored, ok := r.applied.Load(v.profile.Name)
	if !ok || v.running == nil || !v.history.Durable() {
		return
	}
	revision := stored.(history.RevisionSpec)
	if revision.Hash != v.running.Blueprint.Hash || revision.UID != v.profile.UID || v.history.Contains(revision) {
		return
	}
	revision.Blamed = false // it is not built
	r.options.History.Begin(ctx, v.history, revision)
	if v.history.Durable() {
		log.FromContext(ctx).Info("The revision of what runs was missing, and is stored again", "revision", compile.RevisionName(revision.Profile, revision.Hash))
	}
}

// trialAndApply applies a Blueprint, after a trial with the profile's pods unless
// skipTrial is set.
func (r *profileReconciler) trialAndApply(ctx context.Context, b *compile.Blueprint, skipTrial bool) error {
	if !skipTrial {
		if _, err := r.options.Applier.Try(ctx, b); err != nil {
			return err
		}
	}
	return r.options.Applier.Apply(ctx, b)
}

func revisionSpecFor(v observation, candidate history.Candidate) (history.RevisionSpec, error) {
	spec, configs, configNames := v.profile, v.configs, configsByPlugin(v.profile)
	if candidate.Revision != nil {
		spec, configs, configNames = candidate.Revision.Profile, nil, candidate.Revision.Configs
	}
	data, err := compile.SelfContained(spec, configs)
	return history.RevisionSpec{
		Profile: v.profile.Name, UID: v.profile.UID, Hash: candidate.Hash, Generation: candidate.Generation, Data: data, Configs: configNames,
		Blamed: candidate.BlamedFor != nil, Retry: v.profile.Annotations[v1alpha1.AnnotationRetry],
	}, err
}

// configsByPlugin returns the names of the PluginConfigs that p references, by plugin.
func configsByPlugin(p *v1alpha1.SchedulingProfile) map[string]string {
	names := map[string]string{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef != nil {
			names[entry.Name] = entry.ConfigRef.Name
		}
	}
	return names
}

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
	// first is when the profile first resolved to something else than what runs, or than what
	// was tried last.
	first time.Time
	// ended says that the delay has ended, so that hash was tried. As it still does not run,
	// it failed or was put off, and what comes next is another change.
	ended bool
}

// settleDelay returns how long to wait until what the profile resolves to may replace
// what runs; 0 when it may now. A profile does not wait when nothing runs, or when it
// neither references a PluginConfig nor runs with one. Reconciles of one profile must
// not overlap.
func (r *profileReconciler) settleDelay(v observation) time.Duration {
	name := v.profile.Name
	if v.verdict != history.Run || v.running == nil || v.running.Blueprint.Hash == v.blueprint.Hash ||
		len(configRefNames(v.profile)) == 0 && len(v.running.Blueprint.Configs) == 0 {
		r.unsettledChanges.Delete(name)
		return 0
	}
	now := r.options.Clock.Now()
	change := unsettledChange{hash: v.blueprint.Hash, since: now, first: now}
	if stored, ok := r.unsettledChanges.Load(name); ok {
		before := stored.(unsettledChange)
		switch {
		case before.hash == change.hash:
			change.since, change.first = before.since, before.first
		case !before.ended:
			change.first = before.first
		}
	}
	delay := max(0, min(change.since.Add(settlePeriod).Sub(now), change.first.Add(maxSettlePeriod).Sub(now)))
	change.ended = delay == 0
	r.unsettledChanges.Store(name, change)
	return delay
}
