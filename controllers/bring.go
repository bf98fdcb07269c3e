package controllers

import (
	"context"

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
	var err error
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
	var candidates []compile.Candidate
	v.verdict, candidates = compile.Choose(r.situation(v))
	if v.elsewhere {
		candidates = nil // nor is what ran before to serve those pods
	}
	last, _ := r.options.Applier.Tried(p.Name)
	if v.verdict == compile.Awaiting && r.leads() {
		v.failed(r.rehearse(ctx, v))
	}
	r.runOne(ctx, &v, candidates)
	if !v.paused() || fault.SwapBeforePause {
		r.options.Applier.Pause(p.Name, v.paused())
	}
	v.running = r.running(p.Name)
	r.tell(&v, last)
	v.now = r.options.Clock.Now()
	return v, nil
}

// runOne runs the first of the candidates that can be run; where something runs
// already, the first or none.
func (r *profileReconciler) runOne(ctx context.Context, v *visit, candidates []compile.Candidate) {
	for _, candidate := range candidates {
		err := r.try(ctx, *v, candidate)
		if err == nil {
			return
		}
		if candidate.Revision == nil {
			v.failed(err)
		} else {
			log.FromContext(ctx).Error(err, "What ran before could not be run", "revision", candidate.Revision.Name)
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

func (r *profileReconciler) situation(v visit) compile.Situation {
	s := compile.Situation{
		Profile: v.profile, Want: v.blueprint, History: v.history.Revisions, Durable: v.history.Durable(), Follows: !r.leads(),
		Compile: func(known *compile.Revision) *compile.Blueprint {
			b, _ := r.resolve(known.Profile, nil)
			return b
		},
	}
	if v.running != nil {
		s.Running = v.running.Blueprint.Hash
	}
	return s
}

// try runs a candidate. The leader notes it in the history first, unless it
// runs already and is there.
func (r *profileReconciler) try(ctx context.Context, v visit, candidate compile.Candidate) error {
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

func stepOf(v visit, candidate compile.Candidate) (history.Step, error) {
	spec, configs := v.profile, v.configs
	if candidate.Revision != nil {
		spec, configs = candidate.Revision.Profile, nil
	}
	data, err := compile.Whole(spec, configs)
	return history.Step{
		Profile: v.profile.Name, UID: v.profile.UID, Hash: candidate.Hash, Generation: candidate.Generation, Data: data,
	}, err
}
