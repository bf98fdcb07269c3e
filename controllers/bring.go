package controllers

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/profile"
)

// bring makes the spec run, as far as it can be understood and built; where it
// cannot, and nothing runs yet, what ran last. A pause comes before the swap
// and its end after it, so that no pod is placed by a Blueprint that was meant
// to wait; it is obeyed even where the rest of the spec is refused, since it
// says nothing about how to schedule.
func (r *profileReconciler) reconcileProfile(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (observation, error) {
	v := observation{profile: p, configs: configs}
	err := r.recordCrashes(ctx)
	if err != nil {
		return v, err
	}
	if v.history, err = r.options.History.Read(ctx, p.Name); err != nil {
		return v, err
	}
	if v.paused() && !fault.SwapBeforePause {
		r.options.Applier.SetPaused(p.Name, true)
	}
	v.running = r.running(p.Name)
	if v.rejection, err = r.servedElsewhere(ctx, p); err != nil {
		return v, err
	}
	v.servedElsewhere = v.rejection != nil
	if !v.servedElsewhere {
		v.blueprint, v.rejection = r.compileProfile(p, configs)
	}
	if fault.BadSpecOverwrites && v.rejection != nil {
		r.options.Applier.Delete(p.Name)
	}
	if err := r.refreshHistory(ctx, v); err != nil {
		return v, err
	}
	var candidates []history.Candidate
	situation := r.chooseInput(v)
	v.blame = situation.Blame()
	v.verdict, candidates = history.Choose(situation)
	if v.settleAfter = r.settleDelay(v); v.settleAfter > 0 {
		return v, nil
	}
	if v.servedElsewhere {
		candidates = nil // nor is what ran before to serve those pods
	}
	last, _ := r.options.Applier.LastTrial(p.Name)
	if v.verdict == history.AwaitingApproval && r.isLeader() {
		v.recordFailure(r.tryUnapproved(ctx, v))
	}
	r.applyFirst(ctx, &v, candidates)
	if !v.paused() || fault.SwapBeforePause {
		r.options.Applier.SetPaused(p.Name, v.paused())
	}
	v.running = r.running(p.Name)
	r.addTrial(&v, last)
	v.now = r.options.Clock.Now()
	r.holdPods(v)
	return v, nil
}

// consult brings the history up to date with what other processes did: whether
// another profile proved a hash, which leaders ended, and what the user has tried
// again.
func (r *profileReconciler) refreshHistory(ctx context.Context, v observation) error {
	want := ""
	if v.blueprint != nil {
		want = v.blueprint.Hash
	}
	if err := r.options.History.LoadProvedHashes(ctx, v.history, want); err != nil {
		return err
	}
	if r.isLeader() {
		r.options.History.CountDeaths(v.history)
		r.options.History.ApplyRetry(v.history, want, v.profile.Annotations[v1alpha1.AnnotationRetry])
	}
	return nil
}

// runOne runs the first of the candidates that can be run; where something runs
// already, the first or none. One that is blamed waits until it is due.
func (r *profileReconciler) applyFirst(ctx context.Context, v *observation, candidates []history.Candidate) {
	for _, candidate := range candidates {
		if candidate.BlamedFor != nil {
			if v.rebuildAfter = r.rebuildDelay(ctx, v.profile.Name, candidate.BlamedFor); v.rebuildAfter > 0 || v.deferred != nil {
				return
			}
		}
		err := r.tryCandidate(ctx, *v, candidate)
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
			log.FromContext(ctx).Error(err, "A revision could not be built", "revision", candidate.Revision.Name)
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
	s := history.ChooseInput{
		Profile: v.profile, Desired: v.blueprint, Revisions: v.history.Revisions, Durable: v.history.Durable(), Follower: !r.isLeader(),
		BuiltIn: r.allBuiltIn,
		Compile: func(known *history.Revision) *compile.Blueprint {
			b, _ := r.compileProfile(known.Profile, nil)
			return b
		},
	}
	if v.blueprint != nil {
		s.Proved = v.history.Proved(v.blueprint.Hash)
	}
	if v.running != nil {
		s.RunningHash = v.running.Blueprint.Hash
	}
	return s
}

// builtIn says whether all plugins of a Blueprint are built in.
func (r *profileReconciler) allBuiltIn(b *compile.Blueprint) bool {
	return !slices.ContainsFunc(pluginNames(b), func(plugin string) bool { return !r.options.Registry[plugin].InTree })
}

// try runs a candidate. The leader notes it in the history first, unless it
// runs already and is there.
func (r *profileReconciler) tryCandidate(ctx context.Context, v observation, candidate history.Candidate) error {
	runs := v.running != nil && v.running.Blueprint.Hash == candidate.Hash
	known := runs || candidate.SkipTrial
	if !r.isLeader() {
		return r.trialAndApply(ctx, candidate.Blueprint, known)
	}
	step, err := revisionSpecFor(v, candidate)
	if err != nil {
		return err
	}
	undo := func(context.Context) {}
	if !runs || !v.history.Contains(step) {
		undo = r.options.History.Begin(ctx, v.history, step)
	}
	err = r.trialAndApply(ctx, candidate.Blueprint, known)
	if err != nil {
		undo(ctx)
	}
	return err
}

// tryAndApply runs a Blueprint. One that is not known to do is tried on real
// pods first.
func (r *profileReconciler) trialAndApply(ctx context.Context, b *compile.Blueprint, known bool) error {
	if !known {
		if _, err := r.options.Applier.Try(ctx, b); err != nil && !fault.TrialIgnored {
			return err
		}
	}
	return r.options.Applier.Apply(ctx, b)
}

func revisionSpecFor(v observation, candidate history.Candidate) (history.RevisionSpec, error) {
	spec, configs, named := v.profile, v.configs, configsByPlugin(v.profile)
	if candidate.Revision != nil {
		spec, configs, named = candidate.Revision.Profile, nil, candidate.Revision.Configs
	}
	data, err := compile.SelfContained(spec, configs)
	return history.RevisionSpec{
		Profile: v.profile.Name, UID: v.profile.UID, Hash: candidate.Hash, Generation: candidate.Generation, Data: data, Configs: named,
		Blamed: candidate.BlamedFor != nil, Retry: v.profile.Annotations[v1alpha1.AnnotationRetry],
	}, err
}

// namedBy returns by plugin the PluginConfigs that p names.
func configsByPlugin(p *v1alpha1.SchedulingProfile) map[string]string {
	named := map[string]string{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef != nil {
			named[entry.Name] = entry.ConfigRef.Name
		}
	}
	return named
}
