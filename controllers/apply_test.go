package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// compileByGenerations returns a Blueprint whose hash consists of the generations of
// the profile and of its PluginConfigs.
func compileByGenerations(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
	b := &compile.Blueprint{Name: in.Profile.Name, Generation: in.Profile.Generation, Hash: fmt.Sprint("hash-", in.Profile.Generation)}
	for _, name := range configRefNames(in.Profile) {
		b.Configs = append(b.Configs, compile.ConfigGeneration{Name: name, Generation: in.Configs[name].Generation, UID: in.Configs[name].UID})
		b.Hash += fmt.Sprint("-", in.Configs[name].Generation)
	}
	return b, nil
}

func TestObjectsAppliedTogetherBecomeOneRevision(t *testing.T) {
	withRef, without := withConfigRef("NodeResourcesFit", "binpack"), func(*v1alpha1.SchedulingProfile) {}
	// step is what the cluster holds, and how long after the previous step.
	type step struct {
		wait            time.Duration
		profile, config int64
		edit            func(*v1alpha1.SchedulingProfile)
		// after is the wait until the next reconcile; 0 when the change waits no more.
		after time.Duration
		// runs is the hash that runs after the reconcile.
		runs string
	}
	for name, steps := range map[string][]step{
		"the PluginConfig comes first": {
			{0, 1, 2, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod / 5, 2, 2, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod, 2, 2, withRef, 0, "hash-2-2"},
		},
		"the profile comes first": {
			{0, 2, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod / 5, 2, 2, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod / 2, 2, 2, withRef, settlePeriod / 2, "hash-1-1"},
			{settlePeriod / 2, 2, 2, withRef, 0, "hash-2-2"},
		},
		"the edit removes the reference": {
			{0, 2, 1, without, settlePeriod, "hash-1-1"},
			{settlePeriod, 2, 1, without, 0, "hash-2"},
		},
		"frequent changes delay the swap for maxSettlePeriod at most": {
			{0, 2, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 3, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 4, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 5, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 6, 1, withRef, 4, "hash-1-1"},
			{4, 7, 1, withRef, 0, "hash-7-1"},
		},
		"an edit that is reverted": {
			{0, 2, 1, withRef, settlePeriod, "hash-1-1"},
			{settlePeriod / 2, 1, 1, withRef, 0, "hash-1-1"},
			{settlePeriod, 2, 1, withRef, settlePeriod, "hash-1-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t)
			d.compile = compileByGenerations
			d.cluster = fakeReader{newProfile(1, withRef), newConfig("binpack", 1)}
			d.mustReconcile()
			want := []string{"batch-hash-1-1 on probation"}
			for i, s := range steps {
				d.clock.Step(s.wait)
				d.cluster = fakeReader{newProfile(s.profile, s.edit), newConfig("binpack", s.config)}
				result, err := d.reconcile()
				if err != nil {
					t.Fatal(err)
				}
				runs, _ := d.applier.Running("batch")
				if runs.Blueprint.Hash != s.runs {
					t.Errorf("step %d: %s runs, want %s", i, runs.Blueprint.Hash, s.runs)
				}
				if s.after != 0 && result.RequeueAfter != s.after {
					t.Errorf("step %d: reconciled again after %v, want %v", i, result.RequeueAfter, s.after)
				}
			}
			if last := steps[len(steps)-1].runs; last != "hash-1-1" {
				want = append(want, "batch-"+last+" on probation")
			}
			d.wantStored(want...)
		})
	}
}

func TestObjectsAppliedTogetherAfterAnEditThatFailedBecomeOneRevision(t *testing.T) {
	for name, fail := range map[string]func(a *fakeApplier){
		"its build": func(a *fakeApplier) { a.err = errNoLicence },
		"its trial": func(a *fakeApplier) { a.trialResult = failedTrial() },
	} {
		t.Run(name, func(t *testing.T) {
			withRef := withConfigRef("NodeResourcesFit", "binpack")
			d := newTestEnv(t)
			d.compile = compileByGenerations
			apply := func(profile, config int64) {
				d.cluster = fakeReader{newProfile(profile, withRef), newConfig("binpack", config)}
			}
			apply(1, 1)
			d.mustReconcile()
			fail(d.applier)
			apply(2, 1)
			d.wantNextReconcile(settlePeriod)
			d.clock.Step(settlePeriod)
			d.mustReconcile()
			if len(d.applier.calls) == 0 || d.applier.calls[0] != "try hash-2-1" {
				t.Errorf("calls %q, want a trial", d.applier.calls)
			}
			d.clock.Step(time.Hour)
			d.mustReconcile()
			d.applier.err, d.applier.trialResult = nil, nil
			apply(2, 2) // kubectl apply writes the PluginConfig first
			d.wantNextReconcile(settlePeriod)
			d.wantCalls()
			d.clock.Step(settlePeriod / 5)
			apply(3, 2)
			d.wantNextReconcile(settlePeriod)
			d.clock.Step(settlePeriod)
			d.mustReconcile()
			d.wantRuns("hash-3-2", "True Programmed")
			d.wantStored("batch-hash-1-1", "batch-hash-3-2 on probation")
		})
	}
}

func TestAnEditWithoutPluginConfigsRunsAtOnce(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.edit(2)
	d.wantRuns("hash-2", "True Programmed")
}
