package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
)

func TestPluginConfigConditions(t *testing.T) {
	ref := withConfigRef("NodeResourcesFit", "binpack")
	invalid := rejectionOf(compile.FieldError{
		Condition: string(v1alpha1.ConditionAccepted), Reason: string(v1alpha1.ReasonInvalidArguments),
		Path: "spec.args.scoringStrategy.type", Detail: `must be one of "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`,
	})
	tests := map[string]struct {
		config    *v1alpha1.PluginConfig
		profiles  []*v1alpha1.SchedulingProfile
		rejection *compile.Rejection
		want      []string
		message   string // of Programmed
	}{
		"it is programmed when no profile references it": {
			config:  newConfig("binpack", 1),
			want:    []string{"Accepted True Accepted", "Programmed True Programmed"},
			message: "no profile names it",
		},
		"it is programmed when every profile that references it runs this generation": {
			config: newConfig("binpack", 2),
			profiles: []*v1alpha1.SchedulingProfile{
				newProfile(4, ref, withRunningConfig("binpack", 2)), newProfile(1, withName("web"), ref, withRunningConfig("binpack", 2)),
			},
			want:    []string{"Accepted True Accepted", "Programmed True Programmed"},
			message: "generation 2 runs in batch, web",
		},
		"it is not programmed while one profile runs an older generation": {
			config: newConfig("binpack", 10),
			profiles: []*v1alpha1.SchedulingProfile{
				newProfile(4, ref, withRunningConfig("binpack", 10)), newProfile(1, withName("web"), ref, withRunningConfig("binpack", 9)),
			},
			want:    []string{"Accepted True Accepted", "Programmed False PreviousRuns"},
			message: "generation 10 runs in batch, generation 9 keeps running in web; generation 10 does not run in web",
		},
		"it is not programmed while a profile that references it does not run": {
			config:   newConfig("binpack", 1),
			profiles: []*v1alpha1.SchedulingProfile{newProfile(1, ref)},
			want:     []string{"Accepted True Accepted", "Programmed False NothingRuns"},
			message:  "runs nowhere; generation 1 does not run in batch",
		},
		"a profile that still runs it and does not reference it any more does not count": {
			config:   newConfig("binpack", 2),
			profiles: []*v1alpha1.SchedulingProfile{newProfile(5, withRunningConfig("binpack", 1))},
			want:     []string{"Accepted True Accepted", "Programmed True Programmed"},
			message:  "no profile names it",
		},
		"it is not programmed while a profile runs the same generation of a deleted PluginConfig of its name": {
			config: newConfig("binpack", 1),
			profiles: []*v1alpha1.SchedulingProfile{
				newProfile(4, ref, withRunningConfigOf("binpack-0", "binpack", 1)), newProfile(1, withName("web"), ref, withRunningConfigOf("binpack-0", "binpack", 3)),
				newProfile(2, withName("zoo"), ref, withRunningConfigOf("binpack-1", "binpack", 1)),
			},
			want: []string{"Accepted True Accepted", "Programmed False PreviousRuns"},
			message: "generation 1 runs in zoo, generation 3 of the deleted binpack keeps running in web, " +
				"generation 1 of the deleted binpack keeps running in batch; generation 1 does not run in batch, web",
		},
		"a status that has no UID, of an earlier version of Berth, is about this PluginConfig": {
			config:   newConfig("binpack", 1),
			profiles: []*v1alpha1.SchedulingProfile{newProfile(4, ref, withRunningConfigOf("", "binpack", 1))},
			want:     []string{"Accepted True Accepted", "Programmed True Programmed"},
			message:  "generation 1 runs in batch",
		},
		"invalid arguments leave the earlier generation running": {
			config:    newConfig("binpack", 3),
			profiles:  []*v1alpha1.SchedulingProfile{newProfile(4, ref, withRunningConfig("binpack", 2))},
			rejection: invalid,
			want:      []string{"Accepted False InvalidArguments", "Programmed False PreviousRuns"},
			message:   "generation 2 keeps running in batch; generation 3 refused: " + invalid.Message(),
		},
		"invalid arguments are not programmed when no profile references them": {
			config:    newConfig("binpack", 1),
			rejection: invalid,
			want:      []string{"Accepted False InvalidArguments", "Programmed False NothingRuns"},
			message:   "no profile names it; generation 1 refused: " + invalid.Message(),
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			written := reconcileConfig(t, tt.config, tt.profiles, tt.rejection)
			if diff := cmp.Diff(tt.want, written.conditions()); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			got := written.status["conditions"].([]any)[1].(map[string]any)["message"]
			if got != tt.message {
				t.Errorf("Programmed says\n%s\nwant\n%s", got, tt.message)
			}
		})
	}
}

// A PluginConfig that is created again has generation 1 again, while a profile that
// waits for approval runs the arguments of the deleted one.
func TestAPluginConfigThatIsCreatedAgainIsNotProgrammedWhereTheDeletedOneRuns(t *testing.T) {
	d := newTestEnv(t)
	d.compile = func(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
		b, _ := compileByGenerations(in)
		for _, c := range b.Configs {
			b.Hash += "-" + string(c.UID)
		}
		return b, nil
	}
	observe := func(approved string, uid types.UID) (v1alpha1.SchedulingProfileStatus, []string) {
		cfg := newConfig("binpack", 1)
		cfg.UID = uid
		d.cluster = fakeReader{newProfile(1, withConfigRef("NodeResourcesFit", "binpack"), withManualActivation(approved)), cfg}
		d.mustReconcile()
		d.clock.Step(settlePeriod)
		d.mustReconcile()
		p := newProfile(1, withConfigRef("NodeResourcesFit", "binpack"))
		text, err := json.Marshal(d.statuses.last(t).status)
		if err == nil {
			err = json.Unmarshal(text, &p.Status)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p.Status, reconcileConfig(t, cfg, []*v1alpha1.SchedulingProfile{p}, nil).conditions()
	}
	for _, step := range []struct {
		approved      string
		uid, runs     types.UID
		ofTheConfig   string
		readyContains string
	}{
		{"hash-1-1-binpack-1", "binpack-1", "binpack-1", "Programmed True Programmed", "generation 1 runs since 12:00"},
		{"hash-1-1-binpack-1", "binpack-2", "binpack-1", "Programmed False PreviousRuns",
			"generation 1 with PluginConfig binpack (deleted) at generation 1 keeps running since 12:00; generation 1 with PluginConfig binpack at generation 1 with hash "},
		{"hash-1-1-binpack-2", "binpack-2", "binpack-2", "Programmed True Programmed", "generation 1 runs since 12:00"},
	} {
		status, conditions := observe(step.approved, step.uid)
		if diff := cmp.Diff([]v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 1, UID: step.uid}}, status.Resolved); diff != "" {
			t.Errorf("%s: resolved (-want +got):\n%s", step.uid, diff)
		}
		if diff := cmp.Diff([]v1alpha1.ObjectGeneration{{Name: "binpack", Generation: 1, UID: step.runs}}, status.Programmed.Configs); diff != "" {
			t.Errorf("%s: programmed.configs (-want +got):\n%s", step.uid, diff)
		}
		if diff := cmp.Diff([]string{"Accepted True Accepted", step.ofTheConfig}, conditions); diff != "" {
			t.Errorf("%s: conditions of the PluginConfig (-want +got):\n%s", step.uid, diff)
		}
		if message := d.message(v1alpha1.ConditionReady); !strings.Contains(message, step.readyContains) {
			t.Errorf("%s: Ready says %q, want %q", step.uid, message, step.readyContains)
		}
	}
}

func TestStatusListsTheProfilesThatReferenceAPluginConfig(t *testing.T) {
	ref := withConfigRef("NodeResourcesFit", "binpack")
	written := reconcileConfig(t, newConfig("binpack", 5),
		[]*v1alpha1.SchedulingProfile{newProfile(2, withName("web"), ref), newProfile(4, ref), newProfile(9, withName("other"))}, nil)
	delete(written.status, "conditions")
	want := map[string]any{
		"observedGeneration": 5.0, "hash": "hash-of-binpack", "referenceCount": 2.0,
		"referencedBy": []any{
			map[string]any{"name": "batch", "generation": 4.0, "uid": "batch-1"}, map[string]any{"name": "web", "generation": 2.0, "uid": "web-1"},
		},
	}
	if diff := cmp.Diff(want, written.status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestTheMessageOfAPluginConfigIsBoundedAndKeepsTheReason(t *testing.T) {
	const most = 32768 // of the schema, in characters
	var profiles []*v1alpha1.SchedulingProfile
	for i := range 200 { // each at a generation of its own
		profiles = append(profiles, newProfile(1, withName(longName(i)), withConfigRef("NodeResourcesFit", "binpack"), withRunningConfig("binpack", int64(i+1))))
	}
	for name, c := range map[string]struct {
		rejection *compile.Rejection
		reason    string
	}{
		"profiles behind":   {nil, "generation 300 does not run in 000-"},
		"invalid arguments": {rejectionOf(noSuchPlugin), noSuchPlugin.Detail},
	} {
		t.Run(name, func(t *testing.T) {
			written := reconcileConfig(t, newConfig("binpack", 300), profiles, c.rejection)
			for _, condition := range written.status["conditions"].([]any) {
				condition := condition.(map[string]any)
				message := condition["message"].(string)
				if n := utf8.RuneCountInString(message); n > most {
					t.Errorf("the message of %s has %d characters, at most %d are accepted", condition["type"], n, most)
				}
				if condition["type"] == "Programmed" && !strings.Contains(message, c.reason) {
					t.Errorf("Programmed says %q, which lacks %q", message, c.reason)
				}
			}
		})
	}
}

// The delay of controller-runtime's own grows to a quarter of an hour.
func TestAStatusOfAPluginConfigThatCouldNotBeWrittenIsTriedAgainSoon(t *testing.T) {
	cfg, statuses := newConfig("binpack", 3), &fakeStatusClient{}
	r := newConfigReconciler(fakeReader{cfg}, statuses, nil)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: cfg.Name}}
	statuses.reject = func(statusWrite) error { return errors.New("no endpoints available for the webhook") }
	for range 12 {
		if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != statusRetryInterval {
			t.Fatalf("%+v, %v, want another attempt after %v", result, err, statusRetryInterval)
		}
	}
	statuses.reject = nil
	if result, err := r.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 0 {
		t.Errorf("%+v, %v, want no other attempt", result, err)
	}
	if got := statuses.last(t).status["observedGeneration"]; got != 3.0 {
		t.Errorf("the status is of generation %v, want 3", got)
	}
}

func reconcileConfig(t *testing.T, cfg *v1alpha1.PluginConfig, profiles []*v1alpha1.SchedulingProfile, rejection *compile.Rejection) statusWrite {
	t.Helper()
	cluster := fakeReader{cfg}
	for _, p := range profiles {
		cluster = append(cluster, p)
	}
	statuses := &fakeStatusClient{}
	r := newConfigReconciler(cluster, statuses, rejection)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: cfg.Name}}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	return statuses.last(t)
}

// newConfigReconciler returns a reconciler that gives each PluginConfig the given result.
func newConfigReconciler(cluster fakeReader, statuses *fakeStatusClient, rejection *compile.Rejection) *pluginConfigReconciler {
	return &pluginConfigReconciler{
		reader: cluster,
		status: &statusWriter{client: statuses, live: cluster, recorder: &fakeRecorder{}, clock: testclock.NewFakeClock(startTime)},
		check: func(cfg *v1alpha1.PluginConfig, _ framework.Registry) (string, *compile.Rejection) {
			if rejection != nil {
				return "", rejection
			}
			return "hash-of-" + cfg.Name, nil
		},
	}
}
