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
func (r *profileReconciler) bring(ctx context.Context, p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (visit, error) {
	v := visit{profile: p, configs: configs}
	err := r.noteCrashes(ctx)
	if err != nil {
		return v, err
	}
	if v.history, err = r.options.History.Read(ctx, p.Name); err != nil {
		return v, err
	}
	if v.paused() && !fault.SwapBeforePause {
		r.options.Applier.Pause(p.Name, true)
	}
	v.running = r.running(p.Name)
	if v.rejection, err = r.servedElsewhere(ctx, p); err != nil {
		return v, err
	}
	v.elsewhere = v.rejection != nil
	if !v.elsewhere {
		v.blueprint, v.rejection = r.resolve(p, configs)
	}
	if fault.BadSpecOverwrites && v.rejection != nil {
		r.options.Applier.Delete(p.Name)
	}
	if err := r.consult(ctx, v); err != nil {
		return v, err
	}
	var candidates []history.Candidate
	situation := r.situation(v)
	v.blame = situation.Blame()
	v.verdict, candidates = history.Choose(situation)
	if v.settles = r.settlesIn(v); v.settles > 0 {
		return v, nil
	}
	if v.elsewhere {
		candidates = nil // nor is what ran before to serve those pods
	}
	last, _ := r.options.Applier.Tried(p.Name)
	if v.verdict == history.Awaiting && r.leads() {
		v.failed(r.rehearse(ctx, v))
	}
	r.runOne(ctx, &v, candidates)
	if !v.paused() || fault.SwapBeforePause {
		r.options.Applier.Pause(p.Name, v.paused())
	}
	v.running = r.running(p.Name)
	r.tell(&v, last)
	v.now = r.options.Clock.Now()
	r.holdPods(v)
	return v, nil
}

// consult brings the history up to date with what other processes did: whether
// another profile proved a hash, which leaders ended, and what the user has tried
// again.
func (r *profileReconciler) consult(ctx context.Context, v visit) error {
	want := ""
	if v.blueprint != nil {
		want = v.blueprint.Hash
	}
	if err := r.options.History.Corroborate(ctx, v.history, want); err != nil {
		return err
	}
	if r.leads() {
		r.options.History.Account(v.history)
		r.options.History.Forgive(v.history, want, v.profile.Annotations[v1alpha1.AnnotationRetry])
	}
	return nil
}

// runOne runs the first of the candidates that can be run; where something runs
// already, the first or none. One that is blamed waits until it is due.
func (r *profileReconciler) runOne(ctx context.Context, v *visit, candidates []history.Candidate) {
	for _, candidate := range candidates {
		if candidate.Last != nil {
			if v.rebuild = r.rebuildIn(ctx, v.profile.Name, candidate.Last); v.rebuild > 0 || v.waits != nil {
				return
			}
		}
		err := r.try(ctx, *v, candidate)
		if err == nil {
			return
		}
		switch {
		case candidate.Revision == nil:
			v.failed(err)
		case later(err):
			v.waits = err
			return
		default:
			log.FromContext(ctx).Error(err, "A revision could not be built", "revision", candidate.Revision.Name)
		}
		if v.running != nil {
			return
		}
	}
}

func (r *profileReconciler) resolve(p *v1alpha1.SchedulingProfile, configs map[string]*v1alpha1.PluginConfig) (*compile.Blueprint, *compile.Rejection) {
	return r.compile(compile.Input{Profile: p, Configs: configs, Registry: r.options.Registry, Version: r.options.Version, Extenders: r.options.Extenders})
}

func (r *profileReconciler) running(name string) *profile.Running {
	if running, ok := r.options.Applier.Running(name); ok {
		return &running
	}
	return nil
}

func (r *profileReconciler) situation(v visit) history.Situation {
	s := history.Situation{
		Profile: v.profile, Want: v.blueprint, History: v.history.Revisions, Durable: v.history.Durable(), Follows: !r.leads(),
		BuiltIn: r.builtIn,
		Compile: func(known *history.Revision) *compile.Blueprint {
			b, _ := r.resolve(known.Profile, nil)
			return b
		},
	}
	if v.blueprint != nil {
		s.Proved = v.history.Proved(v.blueprint.Hash)
	}
	if v.running != nil {
		s.Running = v.running.Blueprint.Hash
	}
	return s
}

// builtIn says whether all plugins of a Blueprint are built in.
func (r *profileReconciler) builtIn(b *compile.Blueprint) bool {
	return !slices.ContainsFunc(pluginNames(b), func(plugin string) bool { return !r.options.Registry[plugin].BuiltIn })
}

// try runs a candidate. The leader notes it in the history first, unless it
// runs already and is there.
func (r *profileReconciler) try(ctx context.Context, v visit, candidate history.Candidate) error {
	runs := v.running != nil && v.running.Blueprint.Hash == candidate.Hash
	known := runs || candidate.Known
	if !r.leads() {
		return r.tryAndApply(ctx, candidate.Blueprint, known)
	}
	step, err := stepOf(v, candidate)
	if err != nil {
		return err
	}
	undo := func(context.Context) {}
	if !runs || !v.history.Holds(step) {
		undo = r.options.History.Begin(ctx, v.history, step)
	}
	err = r.tryAndApply(ctx, candidate.Blueprint, known)
	if err != nil {
		undo(ctx)
	}
	return err
}

// tryAndApply runs a Blueprint. One that is not known to do is tried on real
// pods first.
func (r *profileReconciler) tryAndApply(ctx context.Context, b *compile.Blueprint, known bool) error {
	if !known {
		if _, err := r.options.Applier.Try(ctx, b); err != nil && !fault.TrialIgnored {
			return err
		}
	}
	return r.options.Applier.Apply(ctx, b)
}

func stepOf(v visit, candidate history.Candidate) (history.Step, error) {
	spec, configs, named := v.profile, v.configs, namedBy(v.profile)
	if candidate.Revision != nil {
		spec, configs, named = candidate.Revision.Profile, nil, candidate.Revision.Configs
	}
	data, err := compile.Whole(spec, configs)
	return history.Step{
		Profile: v.profile.Name, UID: v.profile.UID, Hash: candidate.Hash, Generation: candidate.Generation, Data: data, Configs: named,
		Blamed: candidate.Last != nil, Retry: v.profile.Annotations[v1alpha1.AnnotationRetry],
	}, err
}

// namedBy returns by plugin the PluginConfigs that p names.
func namedBy(p *v1alpha1.SchedulingProfile) map[string]string {
	named := map[string]string{}
	for _, entry := range p.Spec.PluginConfig {
		if entry.ConfigRef != nil {
			named[entry.Name] = entry.ConfigRef.Name
		}
	}
	return named
}
