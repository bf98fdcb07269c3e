package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// errNoLicence is the error of a build that fails each time.
var errNoLicence = &profile.BuildError{Plugin: "Own", Err: errors.New("no licence")}

func TestASpecThatFailedIsTriedAgainWithAGrowingDelay(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.err = errNoLicence
	delay := initialRetryDelay
	for range 12 {
		d.wantNextReconcile(delay)
		d.wantCalls("try hash-1", "apply hash-1", "pause batch false", "hold batch")
		d.clock.Step(delay - delay/4)
		d.wantNextReconcile(delay / 4)
		d.wantCalls("pause batch false", "hold batch")
		d.wantRuns("", "False BuildFailed")
		d.clock.Step(delay / 4)
		delay = min(2*delay, maxAttemptDelay)
	}
	d.applier.err = nil
	d.mustReconcile()
	d.wantRuns("hash-1", "True Programmed")
	d.applier.err = errNoLicence
	d.cluster = fakeReader{newProfile(2)}
	d.wantNextReconcile(initialRetryDelay)
}

func TestWhatASpecThatFailedIsTriedAtOnceFor(t *testing.T) {
	for name, c := range map[string]struct {
		follower bool // at the time of the failure
		change   func(d *testEnv)
	}{
		"an edit":                       {change: func(d *testEnv) { d.cluster = fakeReader{newProfile(2)} }},
		"an edit that leaves the hash":  {change: func(d *testEnv) { d.cluster = fakeReader{newProfile(2)}; d.resolveTo("hash-1") }},
		"a change of a PluginConfig":    {change: func(d *testEnv) { d.resolveTo("hash-of-other-arguments") }},
		"kubectl berth retry":           {change: func(d *testEnv) { d.cluster = fakeReader{newProfile(1, withRetry("today"))} }},
		"another profile of that name":  {change: func(d *testEnv) { d.cluster[0].SetUID("batch-2") }},
		"the election of this process":  {follower: true, change: func(d *testEnv) { d.elected = elected() }},
		"the time at which it is due":   {change: func(d *testEnv) { d.clock.Step(initialRetryDelay) }},
		"an edit, and the way back too": {change: func(d *testEnv) { d.edit(2); d.cluster = fakeReader{newProfile(1)} }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.options.History = history.New(history.Options{Clock: d.clock}) // without a history a follower waits for nothing
			d.applier.err = errNoLicence
			if c.follower {
				d.elected = make(chan struct{})
			}
			d.mustReconcile()
			c.change(d)
			d.mustReconcile()
			if !slices.ContainsFunc(d.applier.calls, func(call string) bool { return strings.HasPrefix(call, "try") }) {
				t.Errorf("calls %q of the Applier", d.applier.calls)
			}
		})
	}
}

// elected is the channel of a process that leads.
func elected() <-chan struct{} {
	leads := make(chan struct{})
	close(leads)
	return leads
}

func TestASpecThatFailedItsTrialIsTriedAtOnceAfterAnApproval(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("")))
	d.applier.trialResult = failedTrial()
	d.mustReconcile()
	d.cluster = fakeReader{newProfile(1, withManualActivation("hash-1"))}
	d.mustReconcile()
	d.wantCalls("try hash-1", "pause batch false", "hold batch")
}

// resolveTo makes the spec resolve to that hash.
func (d *testEnv) resolveTo(hash string) {
	d.compile = func(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
		return &compile.Blueprint{Name: in.Profile.Name, Generation: in.Profile.Generation, Hash: hash}, nil
	}
}

// A revision that fails is not built at each visit of the profile either.
func TestARevisionThatFailedIsTriedAgainWithTheSpec(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	d.cluster = fakeReader{newProfile(2)}
	d = d.startProcess("second")
	d.applier.err = errNoLicence
	d.mustReconcile()
	d.wantCalls("try hash-2", "apply hash-2", "apply hash-1", "pause batch false", "hold batch")
	d.mustReconcile()
	d.wantCalls("pause batch false", "hold batch")
	d.applier.err = nil
	d.clock.Step(initialRetryDelay)
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
}

// The error of a build may pass, and no other event makes the profile try the revision again.
func TestARevisionThatFailedInPlaceOfASpecIsTriedAgain(t *testing.T) {
	const failed = "nothing runs; revision batch-hash-1 could not be applied: plugin Own could not be built: no licence; generation 2 "
	for name, c := range map[string]struct {
		edit            func(*testEnv)
		reason, message string
		tries           []string // before the revision
	}{
		"the spec is invalid": {
			func(d *testEnv) { d.reject = rejectionOf(noSuchPlugin) }, "NothingRuns", failed + "refused: ", nil,
		},
		"the spec is not approved": {
			func(d *testEnv) { d.cluster = fakeReader{newProfile(2, withManualActivation("none"))} }, "AwaitingApproval",
			failed + "with hash hash-2 waits for approval: kubectl annotate sprof batch --overwrite berth.dev/approved-hash=hash-2", []string{"try hash-2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.mustReconcile()
			d.prove()
			d.cluster = fakeReader{newProfile(2)}
			c.edit(d)
			d = d.startProcess("second")
			d.applier.err = errNoLicence
			for delay := initialRetryDelay; delay < maxAttemptDelay; delay *= 2 {
				d.wantNextReconcile(delay)
				d.wantCalls(append(slices.Clone(c.tries), "apply hash-1", "pause batch false", "hold batch")...)
				d.wantRuns("", "False "+c.reason)
				if got := d.message(v1alpha1.ConditionProgrammed); !strings.HasPrefix(got, c.message) {
					t.Errorf("message %q, want %q", got, c.message)
				}
				d.clock.Step(delay / 2)
				d.wantNextReconcile(delay / 2)
				d.wantCalls(append(slices.Clone(c.tries), "pause batch false", "hold batch")...)
				d.clock.Step(delay / 2)
			}
			d.applier.err = nil
			d.mustReconcile()
			previous := "False PreviousRuns"
			if c.reason != "NothingRuns" {
				previous = "False " + c.reason
			}
			d.wantRuns("hash-1", previous)
		})
	}
}

// A profile whose spec is blamed is reconciled each five seconds, or when its spec is due.
func TestARevisionThatFailedInPlaceOfABlamedSpecIsTriedAgainWithAGrowingDelay(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{2}
	d.mustReconcile()
	d.prove()
	d.cluster = fakeReader{newProfile(2)}
	for _, process := range []string{"second", "third"} {
		d.dieDuringBuild()
		d = d.startProcess(process)
	}
	d.applier.beforeBuild = func() {
		if calls := d.applier.calls; calls[len(calls)-1] == "try hash-2" {
			panic("the process died")
		}
	}
	d.applier.err = errNoLicence
	func() {
		defer func() { _ = recover() }()
		d.mustReconcile()
	}()
	d = d.startProcess("fourth") // the spec is not due before ten seconds
	d.applier.err = errNoLicence
	for delay := initialRetryDelay; delay < 8*time.Second; delay *= 2 {
		d.wantNextReconcile(delay)
		d.wantCalls("apply hash-1", "pause batch false", "hold batch")
		d.wantRuns("", "False CrashedOnProbation")
		d.clock.Step(delay / 2)
		d.wantNextReconcile(delay / 2)
		d.wantCalls("pause batch false", "hold batch")
		d.clock.Step(delay / 2)
	}
}

func TestASpecThatFailedDelaysNothingElse(t *testing.T) {
	t.Run("what runs is proved", func(t *testing.T) {
		d := newTestEnv(t, newProfile(1))
		d.mustReconcile()
		d.applier.err, d.cluster = errNoLicence, fakeReader{newProfile(2)}
		proved := d.clock.Now().Add(history.Probation)
		for d.clock.Now().Before(proved) {
			after := d.reconcileNamed("batch").RequeueAfter
			if after <= 0 {
				t.Fatal("it is not reconciled again")
			}
			d.clock.Step(after)
		}
		d.mustReconcile()
		d.wantStored("batch-hash-1")
		if late := d.clock.Since(proved); late > 0 {
			t.Errorf("it is proved %v late", late)
		}
	})
	t.Run("another scheduler that is back is noticed", func(t *testing.T) {
		d := newTestEnv(t, newProfile(1, withName(defaultSchedulerName)))
		d.options.OtherSchedulers, d.live = OtherSchedulers{Lease: &otherLeaseName}, otherLease("1")
		d.mustReconcileNamed(defaultSchedulerName)
		d.clock.Step(minLeaseDuration)
		d.mustReconcileNamed(defaultSchedulerName)
		d.applier.err, d.cluster = errNoLicence, fakeReader{newProfile(2, withName(defaultSchedulerName))}
		for began := d.clock.Now(); d.clock.Since(began) < time.Hour; {
			after := d.reconcileNamed(defaultSchedulerName).RequeueAfter
			if after <= 0 || after > otherSchedulerPollInterval {
				t.Fatalf("reconciled again after %v", after)
			}
			d.clock.Step(after)
		}
		d.live = otherLease("2")
		d.mustReconcileNamed(defaultSchedulerName)
		if got := d.statuses.last(t).conditions(); !slices.Contains(got, fmt.Sprint("Accepted False ", v1alpha1.ReasonNameServedElsewhere)) {
			t.Errorf("conditions %q", got)
		}
	})
}
