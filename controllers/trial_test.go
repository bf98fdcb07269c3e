package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/sandbox"
)

// trialWithLostPods returns a trial with ten pods of which n were lost.
func trialWithLostPods(n int) *profile.Trial {
	t := &profile.Trial{Sampled: 10, FitAfter: 9 - n, Compared: true, FitBefore: 9}
	for i := range n {
		t.Lost = append(t.Lost, profile.PodResult{Namespace: "shop", Pod: fmt.Sprint("web-", i), Err: errors.New("0/5 nodes are available: 5 full.")})
	}
	return t
}

// failedTrial returns a failed trial, in which a plugin panics for a pod.
func failedTrial() *profile.Trial {
	t := trialWithLostPods(0)
	t.Failed = true
	t.Failures = []profile.PodResult{{Namespace: "shop", Pod: "web-7", Err: errors.New(`plugin "Own" panicked in Filter: nil map`)}}
	return t
}

// message returns the message of a condition as it was written last.
func (d *testEnv) message(condition v1alpha1.ConditionType) string {
	d.t.Helper()
	list, _ := d.statuses.last(d.t).status["conditions"].([]any)
	for _, c := range list {
		if m := c.(map[string]any); m["type"] == string(condition) {
			return fmt.Sprint(m["message"])
		}
	}
	return ""
}

func (d *testEnv) wantMessage(condition v1alpha1.ConditionType, want string) {
	d.t.Helper()
	if got := d.message(condition); got != want {
		d.t.Errorf("the message of %s is\n  %s\nwant\n  %s", condition, got, want)
	}
}

func TestAFailedTrialChangesNothingAndIsReported(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	d.applier.trialResult = failedTrial()
	d.cluster = fakeReader{newProfile(2)}
	d.wantNextReconcile(initialRetryDelay)
	d.wantCalls("try hash-2", "pause batch false")
	d.wantRuns("hash-1", "False TrialFailed")
	d.wantStored("batch-hash-1")
	want := []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed False TrialFailed", "Ready False TrialFailed", "Stalled True TrialFailed"}
	if diff := cmp.Diff(want, d.statuses.last(t).conditions()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	d.wantMessage(v1alpha1.ConditionReady, `generation 1 keeps running since 12:00; generation 2 failed: `+
		`on trial its plugins failed for 1 of 10 pods: pod shop/web-7: plugin "Own" panicked in Filter: nil map`)
	d.applier.trialResult = trialWithLostPods(0)
	d.clock.Step(initialRetryDelay)
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
}

func TestTheStatusReportsTheTrial(t *testing.T) {
	for name, c := range map[string]struct {
		finds *profile.Trial
		want  map[string]any
		says  string
	}{
		"no pod is lost": {
			finds: trialWithLostPods(0),
			want:  map[string]any{"hash": "hash-1", "sampled": 10.0, "fitBefore": 9.0, "fitAfter": 9.0, "time": "2026-03-01T12:00:00Z"},
			says:  "generation 1 runs since 12:00",
		},
		"nothing ran before": {
			finds: &profile.Trial{Sampled: 3, FitAfter: 2},
			want:  map[string]any{"hash": "hash-1", "sampled": 3.0, "fitAfter": 2.0, "time": "2026-03-01T12:00:00Z"},
			says:  "generation 1 runs since 12:00",
		},
		"nothing ran before, and a plugin fails for one pod": {
			finds: &profile.Trial{Sampled: 3, FitAfter: 2, Failures: failedTrial().Failures},
			want:  map[string]any{"hash": "hash-1", "sampled": 3.0, "fitAfter": 2.0, "time": "2026-03-01T12:00:00Z"},
			says: "generation 1 runs since 12:00; it was tried at 12:00 on 3 of its pods: 2 fit; " +
				`plugins failed for: shop/web-7 (plugin "Own" panicked in Filter: nil map)`,
		},
		"pods are lost": {
			finds: trialWithLostPods(5),
			want: map[string]any{"hash": "hash-1", "sampled": 10.0, "fitBefore": 9.0, "fitAfter": 4.0, "time": "2026-03-01T12:00:00Z", "lost": []any{
				map[string]any{"namespace": "shop", "pod": "web-0"}, map[string]any{"namespace": "shop", "pod": "web-1"}, map[string]any{"namespace": "shop", "pod": "web-2"},
				map[string]any{"namespace": "shop", "pod": "web-3"}, map[string]any{"namespace": "shop", "pod": "web-4"},
			}},
			says: "generation 1 runs since 12:00; it was tried at 12:00 on 10 of its pods: 4 fit, 9 did before; " +
				"lost: shop/web-0 (0/5 nodes are available: 5 full.), shop/web-1, shop/web-2 and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.applier.trialResult = c.finds
			d.mustReconcile()
			if diff := cmp.Diff(any(c.want), d.statuses.last(t).status["trial"]); diff != "" {
				t.Errorf("trial (-want +got):\n%s", diff)
			}
			d.wantMessage(v1alpha1.ConditionProgrammed, c.says)
			d.wantMessage(v1alpha1.ConditionReady, "generation 1 runs since 12:00")
		})
	}
}

func TestAListOfLostPodsIsBounded(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.trialResult = trialWithLostPods(70)
	d.mustReconcile()
	lost := d.statuses.last(t).status["trial"].(map[string]any)["lost"].([]any)
	if len(lost) != v1alpha1.MaxLostPods || !strings.HasSuffix(d.message(v1alpha1.ConditionProgrammed), "shop/web-2 and 67 more") {
		t.Errorf("%d are listed, and %s", len(lost), d.message(v1alpha1.ConditionProgrammed))
	}
}

func TestLostPodsAreAWarningOnce(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.trialResult = trialWithLostPods(1)
	d.mustReconcile()
	d.clock.Step(time.Minute)
	d.mustReconcile()
	var warnings []string
	for i, event := range d.events.events {
		if event == "Warning PodsLost Trial" {
			warnings = append(warnings, d.events.notes[i])
		}
	}
	want := []string{"generation 1 with hash hash-1 was tried at 12:00 on 10 of its pods: 8 fit, 9 did before; " +
		"lost: shop/web-0 (0/5 nodes are available: 5 full.)"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAManualProfileIsTriedBeforeItIsApproved(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("hash-1")))
	d.mustReconcile()
	d.cluster = fakeReader{newProfile(2, withManualActivation("hash-1"))}
	d.applier.trialResult = trialWithLostPods(1)
	d.mustReconcile()
	d.wantCalls("try hash-2", "pause batch false")
	d.wantRuns("hash-1", "False AwaitingApproval")
	d.wantStored("batch-hash-1 on probation")
	d.wantMessage(v1alpha1.ConditionReady, "generation 1 keeps running since 12:00; generation 2 with hash hash-2 was tried at 12:00 on 10 of its pods: "+
		"8 fit, 9 did before; lost: shop/web-0 (0/5 nodes are available: 5 full.); "+
		"it waits for approval: kubectl annotate sprof batch --overwrite berth.dev/approved-hash=hash-2")
	if published, _ := d.statuses.last(t).status["trial"].(map[string]any); published["hash"] != "hash-2" {
		t.Errorf("trial %v, want that of the spec that waits", published)
	}
	if !slices.Contains(d.events.events, "Warning PodsLost Trial") {
		t.Errorf("events %q do not warn", d.events.events)
	}
	d.mustReconcile()
	d.wantCalls("pause batch false") // the trial is not repeated

	d.cluster = fakeReader{newProfile(2, withManualActivation("hash-2"))}
	d.mustReconcile()
	d.wantCalls("try hash-2", "apply hash-2", "pause batch false") // the cluster may have changed
	d.wantRuns("hash-2", "True Programmed")
}

func TestWhatFailsItsTrialCannotBeApproved(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("")))
	d.applier.trialResult = failedTrial()
	for _, retryAfter := range []time.Duration{initialRetryDelay, 2 * initialRetryDelay} {
		d.wantNextReconcile(retryAfter)
		d.wantCalls("try hash-1", "pause batch false", "hold batch")
		d.wantRuns("", "False TrialFailed")
		d.wantStored()
		d.clock.Step(retryAfter)
	}
}

// The reason is written into pods of all namespaces and into their SchedulingDecisions.
func TestTheReasonOfHeldPodsNamesNoOtherObjects(t *testing.T) {
	late := &sandbox.LateError{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-7"}}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"plugins fail on trial": {&profile.TrialError{Trial: *failedTrial()}, "failed its trial; the status of the profile says why"},
		"plugins hang on trial": {&profile.TrialError{AbandonedCall: late}, "failed its trial; the status of the profile says why"},
		"a constructor fails": {
			&profile.BuildError{Plugin: "Own", Err: errors.New("pod shop/web-7 is bound to node-3")}, "could not be applied; the status of the profile says why",
		},
		"another error": {fmt.Errorf("reading the cluster for a trial: %w", late), "could not be applied; the status of the profile says why"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.applier.err = c.err
			d.mustReconcile()
			if want := "SchedulingProfile batch does not run: generation 1 " + c.want; d.applier.held["batch"] != want {
				t.Errorf("pods are held with\n  %s\nwant\n  %s", d.applier.held["batch"], want)
			}
			if got := d.message(v1alpha1.ConditionReady); !strings.Contains(got, "web-7") {
				t.Errorf("the profile's condition says %q, without the pod", got)
			}
		})
	}
}

func TestAFollowerRunsNoTrialOfAnUnapprovedSpec(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("")))
	d.elected = make(chan struct{})
	d.mustReconcile()
	d.wantCalls("pause batch false")
}

// A plugin may crash the process as soon as it is built, also for a trial.
func TestACrashDuringATrialIsRecorded(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("")))
	d.outOfTree = []int64{1}
	died := false
	d.applier.beforeBuild = func() {
		if died {
			return
		}
		died = true
		d.wantStored("batch-hash-1 on probation, building")
		second := d.restartProcess("second") // it survives its trial
		second.wantRuns("", "False AwaitingApproval")
		second.wantCalls("try hash-1", "pause batch false", "hold batch")
		second.applier.lastTrial = failedTrial()
		second.applier.lastTrial.Hash = "hash-1"
		second.applier.beforeBuild = func() { // it crashes in the next one
			d.restartProcess("third").wantRuns("", "False CrashedOnProbation")
		}
		second.mustReconcile()
	}
	d.mustReconcile()
	if !died {
		t.Error("there was no trial")
	}
}

func TestWhatRanBeforeARestartIsNotTried(t *testing.T) {
	reported := &v1alpha1.TrialStatus{Hash: "hash-2", Sampled: 4, FitAfter: 4, Time: metav1.NewTime(startTime)}
	d := newTestEnv(t, newProfile(2, func(p *v1alpha1.SchedulingProfile) {
		p.Status.Programmed, p.Status.Trial = &v1alpha1.ProgrammedProfile{Hash: "hash-2", Generation: 2}, reported
	}))
	d.mustReconcile()
	d.wantCalls("apply hash-2", "pause batch false")
	want := map[string]any{"hash": "hash-2", "sampled": 4.0, "fitAfter": 4.0, "time": "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(any(want), d.statuses.last(t).status["trial"]); diff != "" {
		t.Errorf("the trial of the earlier process (-want +got):\n%s", diff)
	}
}

func TestAProvedRevisionIsNotTriedAtStartup(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	second := d.restartProcess("second")
	second.wantCalls("apply hash-1", "pause batch false")
	second.edit(2)
	second.wantCalls("try hash-2", "apply hash-2", "pause batch false")
	second.edit(1) // every swap is tried
	second.wantCalls("try hash-1", "apply hash-1", "pause batch false")
}

func TestATrialBeforeTheListingEndsIsRetriedSoon(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.unlisted = true
	result, err := d.reconcile()
	if err != nil || result.RequeueAfter != retryInterval {
		t.Errorf("reconciled again after %v, %v; want %v", result.RequeueAfter, err, retryInterval)
	}
	d.wantRuns("", "False NothingRuns")
	d.wantMessage(v1alpha1.ConditionReady, "nothing runs; generation 1 waits: the caches have not synced; the profile is tried on the cluster's pods and nodes before it runs")
}
