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
func byGenerations(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
	b := &compile.Blueprint{Name: in.Profile.Name, Generation: in.Profile.Generation, Hash: fmt.Sprint("hash-", in.Profile.Generation)}
	for _, name := range configsOf(in.Profile) {
		b.Configs = append(b.Configs, compile.ConfigGeneration{Name: name, Generation: in.Configs[name].Generation})
		b.Hash += fmt.Sprint("-", in.Configs[name].Generation)
	}
	return b, nil
}

func TestWhatIsAppliedTogetherIsOneRevision(t *testing.T) {
	fit, own := naming("NodeResourcesFit", "binpack"), func(*v1alpha1.SchedulingProfile) {}
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
			{0, 1, 2, fit, settleTime, "hash-1-1"},
			{settleTime / 5, 2, 2, fit, settleTime, "hash-1-1"},
			{settleTime, 2, 2, fit, 0, "hash-2-2"},
		},
		"the profile comes first": {
			{0, 2, 1, fit, settleTime, "hash-1-1"},
			{settleTime / 5, 2, 2, fit, settleTime, "hash-1-1"},
			{settleTime / 2, 2, 2, fit, settleTime / 2, "hash-1-1"},
			{settleTime / 2, 2, 2, fit, 0, "hash-2-2"},
		},
		"the reference goes with the edit": {
			{0, 2, 1, own, settleTime, "hash-1-1"},
			{settleTime, 2, 1, own, 0, "hash-2"},
		},
		"what changes all the time is not put off for ever": {
			{0, 2, 1, fit, settleTime, "hash-1-1"},
			{settleTime - 1, 3, 1, fit, settleTime, "hash-1-1"},
			{settleTime - 1, 4, 1, fit, settleTime, "hash-1-1"},
			{settleTime - 1, 5, 1, fit, settleTime, "hash-1-1"},
			{settleTime - 1, 6, 1, fit, 4, "hash-1-1"},
			{4, 7, 1, fit, 0, "hash-7-1"},
		},
		"an edit that is taken back": {
			{0, 2, 1, fit, settleTime, "hash-1-1"},
			{settleTime / 2, 1, 1, fit, 0, "hash-1-1"},
			{settleTime, 2, 1, fit, settleTime, "hash-1-1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t)
			d.compile = byGenerations
			d.cluster = objects{aProfile(1, fit), aConfig("binpack", 1)}
			d.mustVisit()
			want := []string{"batch-hash-1-1 on probation"}
			for i, s := range steps {
				d.clock.Step(s.after)
				d.cluster = objects{aProfile(s.profile, s.edit), aConfig("binpack", s.config)}
				result, err := d.visit()
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
	d := newDesk(t, aProfile(1))
	d.mustVisit()
	d.edit(2)
	d.wantRuns("hash-2", "True Programmed")
}
