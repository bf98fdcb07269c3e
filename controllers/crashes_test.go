package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// visitNamed reconciles the profile of that name.
func (d *desk) visitNamed(name string) reconcile.Result {
	d.t.Helper()
	result, err := d.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		d.t.Fatal(err)
	}
	return result
}

// retried says that the profile is to be tried again.
func retried(value string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Annotations = map[string]string{v1alpha1.AnnotationRetry: value}
	}
}

func (d *desk) wantRunning(name, hash string) {
	d.t.Helper()
	if r, ok := d.applier.Running(name); !ok || r.Blueprint.Hash != hash {
		d.t.Errorf("%s runs %+v, want %s", name, r.Blueprint, hash)
	}
}

func TestKillsStopNoProfile(t *testing.T) {
	for sentence, foreign := range map[string][]int64{"of built-in plugins": nil, "of others": {1, 2}} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, aProfile(1), aProfile(2, named("idle")))
			d.foreign = foreign
			d.mustVisit()
			d.mustVisitNamed("idle")
			for _, process := range []string{"second", "third", "fourth", "fifth"} {
				d.clock.Step(15 * time.Second)
				d = d.restart(process)
				d.mustVisitNamed("idle")
				d.wantRunning("batch", "hash-1")
				d.wantRunning("idle", "hash-2")
			}
			if conditions := d.statuses.last(t).conditions(); !slices.Contains(conditions, "Programmed True Programmed") {
				t.Errorf("conditions %q", conditions)
			}
		})
	}
}

func TestThreeDeathsOfLeadersBlameAForeignPluginThatCanBeReplaced(t *testing.T) {
	for sentence, c := range map[string]struct {
		foreign []int64
		pause   time.Duration
		want    string
	}{
		"within ten minutes":   {foreign: []int64{2}, pause: time.Minute, want: "hash-1"},
		"more slowly":          {foreign: []int64{2}, pause: 6 * time.Minute, want: "hash-2"},
		"of a built-in plugin": {pause: time.Minute, want: "hash-2"},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, aProfile(1))
			d.foreign = c.foreign
			d.mustVisit()
			d.prove()
			d.edit(2)
			for _, process := range []string{"second", "third", "fourth"} {
				d.wantRunning("batch", "hash-2")
				d.clock.Step(c.pause)
				d = d.restart(process)
			}
			d.wantRunning("batch", c.want)
			if c.want == "hash-1" {
				d.wantRuns("hash-1", "False CrashedOnProbation")
				d.clock.Step(time.Hour)
				d = d.restart("fifth")
				d.wantRuns("hash-1", "False CrashedOnProbation")
			}
		})
	}
}

// A follower goes along with a swap; once it leads, its end counts as any leader's.
func TestTheEndOfALeaderCountsThatFollowedBefore(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{2}
	d.mustVisit()
	d.prove()
	next := d.start("second")
	elected := make(chan struct{})
	next.elected = elected
	next.mustVisit()
	d.edit(2)
	next.cluster = d.cluster
	next.mustVisit()
	next.wantRunning("batch", "hash-2")
	close(elected) // the first one died
	next.mustVisit()
	next.wantStored("batch-hash-1", "batch-hash-2 on probation, 1 deaths")
	next.restart("third").wantStored("batch-hash-1", "batch-hash-2 on probation, 2 deaths")
}

func TestASpecOnWhoseBuildProcessesDieIsReplaced(t *testing.T) {
	for sentence, c := range map[string]struct {
		foreign []int64
		deaths  int
	}{
		"two, with a plugin that is not built in": {foreign: []int64{2}, deaths: 2},
		"three, where all are built in":           {deaths: 3},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, aProfile(1))
			d.foreign = c.foreign
			d.mustVisit()
			d.prove()
			d.cluster = objects{aProfile(2, retried("yesterday"))}
			for i := range c.deaths {
				d.dies()
				d = d.start(fmt.Sprint("process-", i))
			}
			d.mustVisit()
			d.wantRuns("hash-1", "False CrashedOnProbation")
			d.wantSays(v1alpha1.ConditionReady, fmt.Sprintf("generation 1 keeps running since %s; generation 2 with hash hash-2 is blamed for crashes: "+
				"%d processes in a row ended while they built it; change the spec, or try it again with: kubectl berth retry batch", "12:10", c.deaths))
			d = d.restart("later")
			d.wantRuns("hash-1", "False CrashedOnProbation")

			d.cluster = objects{aProfile(2, retried("today"))}
			d.mustVisit()
			d.wantRuns("hash-2", "True Programmed")
			d = d.restart("at last")
			d.wantRuns("hash-2", "True Programmed")
		})
	}
}

func TestABuildThatSucceedsForgetsTheDeathsBefore(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{1}
	for _, process := range []string{"second", "third", "fourth"} {
		d.dies()
		d = d.restart(process)
		d.wantRuns("hash-1", "True Programmed")
		d = d.start(process + " again")
	}
}

func TestABlamedRevisionThatNothingReplacesIsBuiltLast(t *testing.T) {
	d := newDesk(t, aProfile(1), aProfile(2, named("other")))
	d.foreign = []int64{1}
	for _, process := range []string{"second", "third"} {
		d.dies()
		d = d.start(process)
	}
	if again := d.visitNamed("batch").RequeueAfter; again != lookAgain {
		t.Errorf("visited again after %v, want %v: the other profile is not built", again, lookAgain)
	}
	d.wantRuns("", "False CrashedOnProbation")
	if want := "SchedulingProfile batch does not run: generation 1 is blamed for crashes of the scheduler, and no other revision can replace it"; d.applier.held["batch"] != want {
		t.Errorf("the pods say %q, want %q", d.applier.held["batch"], want)
	}
	d.mustVisitNamed("other")
	d.wantRunning("other", "hash-2")
	d.dies() // it is built, as the last one

	for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		d = d.start(fmt.Sprint("process-", i))
		d.mustVisitNamed("other")
		if again := d.visitNamed("batch").RequeueAfter; again != pause {
			t.Errorf("visited again after %v, want %v", again, pause)
		}
		d.clock.Step(pause)
		d.dies()
	}
	d = d.start("the last")
	d.mustVisitNamed("other")
	d.clock.Step(time.Hour)
	d.visitNamed("batch")
	d.wantRuns("hash-1", "True Programmed")
}

func TestACrashStackBlamesTheRevisionsThatRunItsPlugin(t *testing.T) {
	d := newDesk(t, aProfile(1), aProfile(3, named("beside")), aProfile(4, named("without")))
	d.foreign = []int64{2, 3}
	for _, name := range []string{"batch", "beside", "without"} {
		d.mustVisitNamed(name)
	}
	d.prove()
	d.cluster[0] = aProfile(2)
	d.mustVisit()
	noted := 0
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "fatal error: concurrent map writes", Plugins: []string{"Own"}}
	d.clock.Step(time.Second)
	d = d.start("second")
	d.options.Crashes, d.options.CrashesNoted = []history.Crash{crash}, func() { noted++ }
	d.revisions.PrependReactor("update", "controllerrevisions", func() k8stesting.ReactionFunc {
		refused := false
		return func(k8stesting.Action) (bool, runtime.Object, error) {
			was := refused
			refused = true
			return !was, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
		}
	}())
	if _, err := d.visit(); err == nil {
		t.Error("a crash that could not be noted is passed over")
	}
	d.wantAsked()
	d.mustVisit()
	d.mustVisitNamed("without")
	d.mustVisitNamed("beside")
	d.wantRunning("batch", "hash-1")
	d.wantRunning("beside", "hash-3") // nothing can replace it, and all other profiles were built
	d.wantRunning("without", "hash-4")
	if noted != 1 {
		t.Errorf("noted %d times", noted)
	}
	want := `at 2026-03-01T12:10:00Z a process died of "fatal error: concurrent map writes", with plugin Own on its stack`
	for _, name := range []string{"batch-hash-2 on probation, crash stack, 1 deaths", "beside-hash-3 on probation, crash stack, 1 deaths"} {
		if !slices.Contains(d.stored(), name) {
			t.Errorf("revisions %q, want %q", d.stored(), name)
		}
	}
	if conditions := fmt.Sprint(d.statusOf("batch")); !strings.Contains(conditions, want) {
		t.Errorf("conditions %s do not say %q", conditions, want)
	}
}

// statusOf is what was written last into the profile's status.
func (d *desk) statusOf(name string) map[string]any {
	d.t.Helper()
	for _, a := range slices.Backward(d.statuses.all()) {
		if a.name == name {
			return a.status
		}
	}
	d.t.Fatalf("no status of %s was written", name)
	return nil
}

func TestACrashIsNotHeldAgainstWhatWasBuiltLater(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{1}
	crash := history.Crash{Process: "earlier", Time: d.clock.Now().Add(-time.Second), Reason: "panic: x", Plugins: []string{"Own"}}
	d.mustVisit()
	d = d.start("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustVisit()
	d.wantRuns("hash-1", "True Programmed")
}

// Another replica may note what it died of long after, since its container waits to
// be restarted.
func TestARetryIsNotUndoneByAnOlderCrash(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{2}
	d.mustVisit()
	d.prove()
	d.edit(2)
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d.clock.Step(time.Second)
	d = d.start("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustVisit()
	d.wantRuns("hash-1", "False CrashedOnProbation")

	d.clock.Step(2 * time.Second)
	d.cluster = objects{aProfile(2, retried("today"))}
	d.mustVisit()
	d.wantRuns("hash-2", "True Programmed")
	d = d.start("third")
	d.options.Crashes = []history.Crash{{Process: "other", Time: crash.Time.Add(time.Second), Reason: "panic: x", Plugins: []string{"Own"}}}
	d.mustVisit()
	d.wantRuns("hash-2", "True Programmed")
}

func TestARetryThatMeetsAnotherWriterIsCarriedOut(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{2}
	d.mustVisit()
	d.prove()
	d.cluster = objects{aProfile(2)}
	for i := range 2 {
		d.dies()
		d = d.start(fmt.Sprint("process-", i))
	}
	d.mustVisit()
	d.wantRuns("hash-1", "False CrashedOnProbation")
	conflicts := 1
	d.revisions.PrependReactor("update", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		conflicts--
		return conflicts >= 0, nil, apierrors.NewConflict(schema.GroupResource{Resource: "controllerrevisions"}, "batch-hash-2", errors.New("it was changed"))
	})
	d.cluster = objects{aProfile(2, retried("today"))}
	d.mustVisit()
	d.wantRuns("hash-2", "True Programmed")
	if conflicts >= 0 {
		t.Error("nothing was written")
	}
	d = d.restart("later")
	d.wantRuns("hash-2", "True Programmed")
}

func TestProfilesWaitTenSecondsForACrashThatCannotBeNoted(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{1}
	d.mustVisit()
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d = d.start("second")
	d.options.Crashes = []history.Crash{crash}
	d.revisions.PrependReactor("update", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
	})
	for range 10 {
		d.clock.Step(notingPatience / 10)
		if _, err := d.visit(); err == nil {
			t.Fatal("a crash that could not be noted is passed over")
		}
	}
	d.wantAsked()
	d.clock.Step(notingPatience / 10)
	d.mustVisit()
	d.wantRunning("batch", "hash-1")
}

func TestARevisionThatRanForSecondsReplacesNoneThatServedForMinutes(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.foreign = []int64{3}
	d.mustVisit()
	d.serve()
	d.edit(2)
	d.clock.Step(10 * time.Second)
	d.edit(3)
	crash := history.Crash{Process: "first", Time: d.clock.Now(), Reason: "panic: x", Plugins: []string{"Own"}}
	d = d.start("second")
	d.options.Crashes = []history.Crash{crash}
	d.mustVisit()
	d.wantRuns("hash-1", "False CrashedOnProbation")
}

func TestAHashThatAnotherProfileProvedIsProved(t *testing.T) {
	d := newDesk(t, aProfile(1), aProfile(1, named("older")))
	d.mustVisitNamed("older")
	d.clock.Step(history.Probation)
	d.mustVisitNamed("older")
	d.mustVisit()
	d.wantStored("batch-hash-1", "older-hash-1")

	follower := d.start("second")
	follower.elected = make(chan struct{})
	if _, err := follower.visit(); err != nil {
		t.Fatal(err)
	}
	follower.wantRunning("batch", "hash-1")
}

func TestThePodsOfAProfileThatDoesNotRunAreHeld(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.reject = rejected(noSuchPlugin)
	d.mustVisit()
	want := "SchedulingProfile batch does not run: generation 1 was refused: " + d.reject.Message()
	if got := d.applier.held["batch"]; got != want {
		t.Errorf("the pods say %q, want %q", got, want)
	}
	d.reject = nil
	d.edit(2)
	d.wantAsked("try hash-2", "apply hash-2", "pause batch false")

	d.reject = rejected(noSuchPlugin)
	d.edit(3)
	d.wantAsked("pause batch false") // generation 2 runs
}

func TestAFollowerHoldsNoPods(t *testing.T) {
	d := newDesk(t, aProfile(1))
	d.elected = make(chan struct{})
	d.reject = rejected(noSuchPlugin)
	d.mustVisit()
	d.wantAsked("pause batch false")
}
