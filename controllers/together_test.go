package controllers

import (
	"fmt"
	"testing"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// byGenerations lets the hash of a profile say its generation and those of its
// PluginConfigs.
func compileByGenerations(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
	b := &compile.Blueprint{Name: in.Profile.Name, Generation: in.Profile.Generation, Hash: fmt.Sprint("hash-", in.Profile.Generation)}
	for _, name := range configRefNames(in.Profile) {
		b.Configs = append(b.Configs, compile.ConfigGeneration{Name: name, Generation: in.Configs[name].Generation})
		b.Hash += fmt.Sprint("-", in.Configs[name].Generation)
	}
	return b, nil
}

func TestObjectsAppliedTogetherBecomeOneRevision(t *testing.T) {
	fit, own := withConfigRef("NodeResourcesFit", "binpack"), func(*v1alpha1.SchedulingProfile) {}
	// step is what the cluster holds, and how long after the step before.
	type step struct {
		after           time.Duration
		profile, config int64
		edit            func(*v1alpha1.SchedulingProfile)
		// again is how long the change waits yet; 0: not any more.
		again time.Duration
		// runs is the hash that runs after the visit.
		runs string
	}
	for sentence, steps := range map[string][]step{
		"the PluginConfig comes first": {
			{0, 1, 2, fit, settlePeriod, "hash-1-1"},
			{settlePeriod / 5, 2, 2, fit, settlePeriod, "hash-1-1"},
			{settlePeriod, 2, 2, fit, 0, "hash-2-2"},
		},
		"the profile comes first": {
			{0, 2, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod / 5, 2, 2, fit, settlePeriod, "hash-1-1"},
			{settlePeriod / 2, 2, 2, fit, settlePeriod / 2, "hash-1-1"},
			{settlePeriod / 2, 2, 2, fit, 0, "hash-2-2"},
		},
		"the reference goes with the edit": {
			{0, 2, 1, own, settlePeriod, "hash-1-1"},
			{settlePeriod, 2, 1, own, 0, "hash-2"},
		},
		"what changes all the time is not put off for ever": {
			{0, 2, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 3, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 4, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 5, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod - 1, 6, 1, fit, 4, "hash-1-1"},
			{4, 7, 1, fit, 0, "hash-7-1"},
		},
		"an edit that is taken back": {
			{0, 2, 1, fit, settlePeriod, "hash-1-1"},
			{settlePeriod / 2, 1, 1, fit, 0, "hash-1-1"},
			{settlePeriod, 2, 1, fit, settlePeriod, "hash-1-1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newTestEnv(t)
			d.compile = compileByGenerations
			d.cluster = fakeReader{newProfile(1, fit), newConfig("binpack", 1)}
			d.mustReconcile()
			want := []string{"batch-hash-1-1 on probation"}
			for i, s := range steps {
				d.clock.Step(s.after)
				d.cluster = fakeReader{newProfile(s.profile, s.edit), newConfig("binpack", s.config)}
				result, err := d.reconcile()
				if err != nil {
					t.Fatal(err)
				}
				runs, _ := d.applier.Running("batch")
				if runs.Blueprint.Hash != s.runs {
					t.Errorf("step %d: %s runs, want %s", i, runs.Blueprint.Hash, s.runs)
				}
				if s.again != 0 && result.RequeueAfter != s.again {
					t.Errorf("step %d: visited again after %v, want %v", i, result.RequeueAfter, s.again)
				}
			}
			if last := steps[len(steps)-1].runs; last != "hash-1-1" {
				want = append(want, "batch-"+last+" on probation")
			}
			d.wantStored(want...)
		})
	}
}

func TestAnEditWithoutPluginConfigsRunsAtOnce(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.edit(2)
	d.wantRuns("hash-2", "True Programmed")
}
