package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// reconcileNamed reconciles the profile of that name.
func (d *testEnv) reconcileNamed(name string) reconcile.Result {
	d.t.Helper()
	result, err := d.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		d.t.Fatal(err)
	}
	return result
}

// withRetry sets the annotation that retries the spec.
func withRetry(value string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRetry: value}
	}
}

func (d *testEnv) wantRunning(name, hash string) {
	d.t.Helper()
	if r, ok := d.applier.Running(name); !ok || r.Blueprint.Hash != hash {
		d.t.Errorf("%s runs %+v, want %s", name, r.Blueprint, hash)
	}
}

func TestKillsBlameNoProfile(t *testing.T) {
	for name, outOfTree := range map[string][]int64{"of built-in plugins": nil, "of out-of-tree plugins": {1, 2}} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1), newProfile(2, withName("idle")))
			d.outOfTree = outOfTree
			d.mustReconcile()
			d.mustReconcileNamed("idle")
			for _, process := range []string{"second", "third", "fourth", "fifth"} {
				d.clock.Step(15 * time.Second)
				d = d.restartProcess(process)
				d.mustReconcileNamed("idle")
				d.wantRunning("batch", "hash-1")
				d.wantRunning("idle", "hash-2")
			}
			if conditions := d.statuses.last(t).conditions(); !slices.Contains(conditions, "Programmed True Programmed") {
				t.Errorf("conditions %q", conditions)
			}
		})
	}
}

func TestThreeLeaderDeathsBlameAReplaceableOutOfTreePlugin(t *testing.T) {
	for name, c := range map[string]struct {
		outOfTree []int64
		pause     time.Duration
		want      string
	}{
		"within ten minutes":   {outOfTree: []int64{2}, pause: time.Minute, want: "hash-1"},
		"more slowly":          {outOfTree: []int64{2}, pause: 6 * time.Minute, want: "hash-2"},
		"of a built-in plugin": {pause: time.Minute, want: "hash-2"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.outOfTree = c.outOfTree
			d.mustReconcile()
			d.prove()
			d.edit(2)
			for _, process := range []string{"second", "third", "fourth"} {
				d.wantRunning("batch", "hash-2")
				d.clock.Step(c.pause)
				d = d.restartProcess(process)
			}
			d.wantRunning("batch", c.want)
			if c.want == "hash-1" {
				d.wantRuns("hash-1", "False CrashedOnProbation")
				d.clock.Step(time.Hour)
				d = d.restartProcess("fifth")
				d.wantRuns("hash-1", "False CrashedOnProbation")
			}
		})
	}
}

// A follower follows a swap; once it leads, its death counts as that of any leader.
func TestTheDeathOfALeaderThatWasAFollowerCounts(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{2}
	d.mustReconcile()
	d.prove()
	next := d.startProcess("second")
	elected := make(chan struct{})
	next.elected = elected
	next.mustReconcile()
	d.edit(2)
	next.cluster = d.cluster
	next.mustReconcile()
	next.wantRunning("batch", "hash-2")
	close(elected) // the first process died
	next.mustReconcile()
	next.wantStored("batch-hash-1", "batch-hash-2 on probation, 1 deaths")
	next.restartProcess("third").wantStored("batch-hash-1", "batch-hash-2 on probation, 2 deaths")
}

func TestASpecThatCrashesDuringItsBuildIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		outOfTree []int64
		deaths    int
	}{
		"two, with a plugin that is not built in": {outOfTree: []int64{2}, deaths: 2},
		"three, where all are built in":           {deaths: 3},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.outOfTree = c.outOfTree
			d.mustReconcile()
			d.prove()
			d.cluster = fakeReader{newProfile(2, withRetry("yesterday"))}
			for i := range c.deaths {
				d.dieDuringBuild()
				d = d.startProcess(fmt.Sprint("process-", i))
			}
			d.mustReconcile()
			d.wantRuns("hash-1", "False CrashedOnProbation")
			d.wantMessage(v1alpha1.ConditionReady, fmt.Sprintf("generation 1 keeps running since %s; generation 2 with hash hash-2 is blamed for crashes: "+
				"%d processes in a row ended while they built it; change the spec, or try it again with: kubectl berth retry batch", "12:10", c.deaths))
			d = d.restartProcess("later")
			d.wantRuns("hash-1", "False CrashedOnProbation")

			d.cluster = fakeReader{newProfile(2, withRetry("today"))}
			d.mustReconcile()
			d.wantRuns("hash-2", "True Programmed")
			d = d.restartProcess("at last")
			d.wantRuns("hash-2", "True Programmed")
		})
	}
}

func TestASuccessfulBuildClearsBuildDeaths(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{1}
	for _, process := range []string{"second", "third", "fourth"} {
		d.dieDuringBuild()
		d = d.restartProcess(process)
		d.wantRuns("hash-1", "True Programmed")
		d = d.startProcess(process + " again")
	}
}

func TestABlamedRevisionThatNothingReplacesIsBuiltLast(t *testing.T) {
	d := newTestEnv(t, newProfile(1), newProfile(2, withName("other")))
	d.outOfTree = []int64{1}
	for _, process := range []string{"second", "third"} {
		d.dieDuringBuild()
		d = d.startProcess(process)
	}
	if after := d.reconcileNamed("batch").RequeueAfter; after != retryInterval {
		t.Errorf("reconciled again after %v, want %v: the other profile is not built", after, retryInterval)
	}
	d.wantRuns("", "False CrashedOnProbation")
	if want := "SchedulingProfile batch does not run: generation 1 is blamed for crashes of the scheduler, and no other revision can replace it"; d.applier.held["batch"] != want {
		t.Errorf("the pods are held with %q, want %q", d.applier.held["batch"], want)
	}
	d.mustReconcileNamed("other")
	d.wantRunning("other", "hash-2")
	d.dieDuringBuild() // it is built last

	for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		d = d.startProcess(fmt.Sprint("process-", i))
		d.mustReconcileNamed("other")
		if after := d.reconcileNamed("batch").RequeueAfter; after != pause {
			t.Errorf("reconciled again after %v, want %v", after, pause)
		}
		d.clock.Step(pause)
		d.dieDuringBuild()
	}
	d = d.startProcess("the last")
	d.mustReconcileNamed("other")
	d.clock.Step(time.Hour)
	d.reconcileNamed("batch")
	d.wantRuns("hash-1", "True Programmed")
	want := []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed True Programmed", "Ready True Ready"}
	if diff := cmp.Diff(want, d.statuses.last(t).conditions()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestACrashStackBlamesTheRevisionsThatRunItsPlugin(t *testing.T) {
	d := newTestEnv(t, newProfile(1), newProfile(3, withName("beside")), newProfile(4, withName("without")))
	d.outOfTree = []int64{2, 3}
	for _, name := range []string{"batch", "beside", "without"} {
		d.mustReconcileNamed(name)
	}
	d.prove()
	d.cluster[0] = newProfile(2)
	d.mustReconcile()
	recorded := 0
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "fatal error: concurrent map writes", Plugins: []string{"Own"}}
	d.clock.Step(time.Second)
	d = d.startProcess("second")
	d.options.Crashes, d.options.CrashesRecorded = []history.Crash{crash}, func() { recorded++ }
	d.revisions.PrependReactor("update", "controllerrevisions", func() k8stesting.ReactionFunc {
		failed := false
		return func(k8stesting.Action) (bool, runtime.Object, error) {
			first := !failed
			failed = true
			return first, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
		}
	}())
	if _, err := d.reconcile(); err == nil {
		t.Error("no error, although a crash could not be recorded")
	}
	d.wantCalls()
	d.mustReconcile()
	d.mustReconcileNamed("without")
	d.mustReconcileNamed("beside")
	d.wantRunning("batch", "hash-1")
	d.wantRunning("beside", "hash-3") // nothing can replace it, and all other profiles are built
	d.wantRunning("without", "hash-4")
	if recorded != 1 {
		t.Errorf("recorded %d times", recorded)
	}
	want := `at 2026-03-01T12:10:00Z a process died of "fatal error: concurrent map writes", with plugin Own on its stack`
	for _, name := range []string{"batch-hash-2 on probation, crash stack, 1 deaths", "beside-hash-3 on probation, crash stack, 1 deaths"} {
		if !slices.Contains(d.storedRevisions(), name) {
			t.Errorf("revisions %q, want %q", d.storedRevisions(), name)
		}
	}
	if conditions := fmt.Sprint(d.statusOf("batch")); !strings.Contains(conditions, want) {
		t.Errorf("conditions %s do not say %q", conditions, want)
	}
}

// statusOf returns the status that was written last for a profile.
func (d *testEnv) statusOf(name string) map[string]any {
	d.t.Helper()
	for _, a := range slices.Backward(d.statuses.all()) {
		if a.name == name {
			return a.status
		}
	}
	d.t.Fatalf("no status of %s was written", name)
	return nil
}

func TestACrashDoesNotBlameARevisionBuiltLater(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{1}
	crash := history.Crash{Process: "earlier", Time: d.clock.Now().Add(-time.Second), Reason: "panic: x", Plugins: []string{"Own"}}
	d.mustReconcile()
	d = d.startProcess("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustReconcile()
	d.wantRuns("hash-1", "True Programmed")
}

// Another replica may record its crash long after it, since its container waits to be
// restarted.
func TestARetryIsNotUndoneByAnOlderCrash(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{2}
	d.mustReconcile()
	d.prove()
	d.edit(2)
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d.clock.Step(time.Second)
	d = d.startProcess("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustReconcile()
	d.wantRuns("hash-1", "False CrashedOnProbation")

	d.clock.Step(2 * time.Second)
	d.cluster = fakeReader{newProfile(2, withRetry("today"))}
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
	d = d.startProcess("third")
	d.options.Crashes = []history.Crash{{Process: "other", Time: crash.Time.Add(time.Second), Reason: "panic: x", Plugins: []string{"Own"}}}
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
}

func TestARetrySurvivesAConflict(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{2}
	d.mustReconcile()
	d.prove()
	d.cluster = fakeReader{newProfile(2)}
	for i := range 2 {
		d.dieDuringBuild()
		d = d.startProcess(fmt.Sprint("process-", i))
	}
	d.mustReconcile()
	d.wantRuns("hash-1", "False CrashedOnProbation")
	conflicts := 1
	d.revisions.PrependReactor("update", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "controllerrevisions"}, "batch-hash-2", errors.New("it was changed"))
	})
	d.cluster = fakeReader{newProfile(2, withRetry("today"))}
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
	if conflicts >= 0 {
		t.Error("nothing was written")
	}
	d = d.restartProcess("later")
	d.wantRuns("hash-2", "True Programmed")
}

func TestProfilesWaitTenSecondsForACrashThatCannotBeRecorded(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{1}
	d.mustReconcile()
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d = d.startProcess("second")
	d.options.Crashes = []history.Crash{crash}
	d.revisions.PrependReactor("update", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
	})
	for range 10 {
		d.clock.Step(recordCrashesTimeout / 10)
		if _, err := d.reconcile(); err == nil {
			t.Fatal("no error, although a crash could not be recorded")
		}
	}
	d.wantCalls()
	d.clock.Step(recordCrashesTimeout / 10)
	d.mustReconcile()
	d.wantRunning("batch", "hash-1")
}

func TestARevisionThatRanForSecondsIsNotPreferredAsReplacement(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.outOfTree = []int64{3}
	d.mustReconcile()
	d.serve()
	d.edit(2)
	d.clock.Step(10 * time.Second)
	d.edit(3)
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d = d.startProcess("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustReconcile()
	d.wantRuns("hash-1", "False CrashedOnProbation")
}

func TestAHashThatAnotherProfileProvedIsProved(t *testing.T) {
	d := newTestEnv(t, newProfile(1), newProfile(1, withName("older")))
	d.mustReconcileNamed("older")
	d.clock.Step(history.Probation)
	d.mustReconcileNamed("older")
	d.mustReconcile()
	d.wantStored("batch-hash-1", "older-hash-1")

	follower := d.startProcess("second")
	follower.elected = make(chan struct{})
	if _, err := follower.reconcile(); err != nil {
		t.Fatal(err)
	}
	follower.wantRunning("batch", "hash-1")
}

func TestThePodsOfAProfileThatDoesNotRunAreHeld(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	want := "SchedulingProfile batch does not run: generation 1 was refused: " + d.reject.Message()
	if got := d.applier.held["batch"]; got != want {
		t.Errorf("the pods are held with %q, want %q", got, want)
	}
	d.reject = nil
	d.edit(2)
	d.wantCalls("try hash-2", "apply hash-2", "pause batch false")

	d.reject = rejectionOf(noSuchPlugin)
	d.edit(3)
	d.wantCalls("pause batch false") // generation 2 runs
}

func TestAFollowerHoldsNoPods(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.elected = make(chan struct{})
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	d.wantCalls("pause batch false")
}
