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
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// startProcess returns the testEnv of the next process after the last one was killed.
// The cluster is the same, and no profile is reconciled yet.
func (d *testEnv) startProcess(process string) *testEnv {
	next := newTestEnv(d.t)
	next.cluster, next.revisions, next.clock, next.reject, next.outOfTree = d.cluster, d.revisions, d.clock, d.reject, d.outOfTree
	next.applier.now, next.options.Clock = d.clock.Now, d.clock
	next.options.History = history.New(history.Options{
		Revisions: d.revisions.AppsV1().ControllerRevisions("berth-system"), Process: process, Clock: d.clock,
	})
	return next
}

// restartProcess is startProcess and a reconcile.
func (d *testEnv) restartProcess(process string) *testEnv {
	next := d.startProcess(process)
	next.mustReconcile()
	return next
}

// dieDuringBuild makes the process die while it builds a profile.
func (d *testEnv) dieDuringBuild() {
	d.t.Helper()
	const killed = "the process died"
	d.applier.beforeBuild = func() { panic(killed) }
	defer func() {
		d.t.Helper()
		if recover() != killed {
			d.t.Errorf("nothing was built: %q", d.applier.calls)
		}
	}()
	_, _ = d.reconcile()
}

// shutDown records a graceful shutdown.
func (d *testEnv) shutDown() {
	d.t.Helper()
	if err := d.options.History.Close(context.Background()); err != nil {
		d.t.Fatal(err)
	}
}

// edit replaces the profile in the cluster by one of the given generation, and
// reconciles it.
func (d *testEnv) edit(generation int64) {
	d.t.Helper()
	d.cluster = fakeReader{newProfile(generation)}
	d.mustReconcile()
}

// prove lets what runs run until it is proved.
func (d *testEnv) prove() {
	d.t.Helper()
	d.clock.Step(history.Probation)
	d.mustReconcile()
}

// serve lets what runs run until it is preferred as a replacement.
func (d *testEnv) serve() {
	d.t.Helper()
	d.clock.Step(history.Probation / history.ServedFraction)
	d.mustReconcile()
}

// storedRevisions returns the revisions, oldest first: the name and the marks of each.
func (d *testEnv) storedRevisions() []string {
	d.t.Helper()
	list, err := d.revisions.AppsV1().ControllerRevisions("berth-system").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	var out []string
	for _, r := range list.Items {
		line := r.Name
		if _, marked := r.Annotations[v1alpha1.AnnotationProbation]; marked {
			line += " on probation"
		}
		for _, mark := range []struct{ annotation, says string }{
			{v1alpha1.AnnotationServed, "served"}, {v1alpha1.AnnotationBuildBegun, "building"}, {v1alpha1.AnnotationCrashStack, "crash stack"},
		} {
			if r.Annotations[mark.annotation] != "" {
				line += ", " + mark.says
			}
		}
		if at := r.Annotations[v1alpha1.AnnotationDeaths]; at != "" {
			line += fmt.Sprintf(", %d deaths", 1+strings.Count(at, ","))
		}
		if n := r.Annotations[v1alpha1.AnnotationBuildDeaths]; n != "" {
			line += ", " + n + " build deaths"
		}
		out = append(out, line)
	}
	return out
}

func (d *testEnv) wantStored(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.storedRevisions()); diff != "" {
		d.t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// wantRuns fails the test unless that hash runs and the condition Programmed has the
// given status and reason.
func (d *testEnv) wantRuns(hash, programmed string) {
	d.t.Helper()
	got := ""
	if r, ok := d.applier.Running("batch"); ok {
		got = r.Blueprint.Hash
	}
	if got != hash {
		d.t.Errorf("%q runs, want %q", got, hash)
	}
	if conditions := d.statuses.last(d.t).conditions(); !slices.Contains(conditions, "Programmed "+programmed) {
		d.t.Errorf("conditions %q, want Programmed %s", conditions, programmed)
	}
}

func TestARevisionIsOnProbationUntilItRanLongEnough(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	const minute = history.Probation / history.ServedFraction
	result, err := d.reconcile()
	if err != nil || result.RequeueAfter != minute {
		t.Errorf("reconciled again after %v, %v; want %v", result.RequeueAfter, err, minute)
	}
	d.wantStored("batch-hash-1 on probation")
	d.clock.Step(minute)
	result, err = d.reconcile()
	if err != nil || result.RequeueAfter != history.Probation-minute {
		t.Errorf("reconciled again after %v, %v; want %v", result.RequeueAfter, err, history.Probation-minute)
	}
	d.wantStored("batch-hash-1 on probation, served")
	d.clock.Step(history.Probation - minute - time.Second)
	d.mustReconcile()
	d.wantStored("batch-hash-1 on probation, served")
	d.clock.Step(time.Second)
	d.mustReconcile()
	d.wantStored("batch-hash-1")
	d.edit(2)
	d.wantStored("batch-hash-1", "batch-hash-2 on probation")
	d.edit(1) // a rollback to a proved revision
	d.wantStored("batch-hash-2 on probation", "batch-hash-1")
}

func TestARevisionIsStoredBeforeItsBuild(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.beforeBuild = func() { d.wantStored("batch-hash-1 on probation, building") }
	d.mustReconcile()
	d.wantStored("batch-hash-1 on probation")
}

// It is tried each second, for as long as pods of the older generations wait to be bound.
func TestASpecThatWaitsForOlderGenerationsIsNotStored(t *testing.T) {
	for name, edited := range map[string]*v1alpha1.SchedulingProfile{
		"the spec is to run":       newProfile(2),
		"the spec is not approved": newProfile(2, withManualActivation("hash-1")),
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.mustReconcile()
			d.prove()
			d.applier.full, d.cluster = true, fakeReader{edited}
			d.revisions.ClearActions()
			d.wantNextReconcile(retryInterval)
			for _, action := range d.revisions.Actions() {
				if action.GetVerb() != "list" {
					t.Errorf("%s of a revision", action.GetVerb())
				}
			}
			if got := d.message(v1alpha1.ConditionProgrammed); name == "the spec is to run" && !strings.Contains(got, "generation 2 waits: 8 older generations") {
				t.Errorf("message %q", got)
			}
			d.applier.full, d.cluster = false, fakeReader{newProfile(2)}
			d.mustReconcile()
			d.wantRuns("hash-2", "True Programmed")
		})
	}
}

func TestARevisionThatCannotBeBuiltIsNotKept(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	d.applier.err = errNoLicence
	d.edit(2)
	d.wantStored("batch-hash-1")
	d.wantRuns("hash-1", "False BuildFailed")
}

// The deletion and the creation are one entry of the work queue, or a standby that runs the
// same spec becomes the leader in between: either way the hash runs already.
func TestAProfileThatIsCreatedAgainWhileItsSpecRunsHasARevision(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	again := func(p *v1alpha1.SchedulingProfile) { p.UID = "batch-2" }
	d.cluster = fakeReader{newProfile(1, again)}
	d.mustReconcile()
	d.reject = rejectionOf(noSuchPlugin)
	d.cluster = fakeReader{newProfile(2, again)}
	d.mustReconcile()
	d = d.restartProcess("second")
	d.wantRuns("hash-1", "False PreviousRuns")
}

// deleteRevisions deletes all ControllerRevisions, as others may.
func (d *testEnv) deleteRevisions() {
	d.t.Helper()
	for _, name := range d.storedRevisions() {
		name, _, _ = strings.Cut(name, " ")
		if err := d.revisions.AppsV1().ControllerRevisions("berth-system").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			d.t.Fatal(err)
		}
	}
}

func TestARevisionOfWhatRunsThatOthersDeleteIsStoredAgain(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(*testEnv) // the deletion
	}{
		"while the spec runs":       {func(*testEnv) {}, func(*testEnv) {}},
		"before an invalid edit":    {func(*testEnv) {}, (*testEnv).editInvalid},
		"after an invalid edit":     {(*testEnv).editInvalid, func(*testEnv) {}},
		"while a revision runs":     {func(d *testEnv) { d.editInvalid(); *d = *d.restartProcess("second") }, func(*testEnv) {}},
		"while the spec is refused": {func(d *testEnv) { d.edit(2); d.editInvalid(); d.editInvalid() }, func(*testEnv) {}},
		"before this process led":   {func(d *testEnv) { d.followedBefore(); d.editInvalid() }, func(d *testEnv) { d.elected = elected() }},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.mustReconcile()
			d.prove()
			c.before(d)
			d.prove()
			runs, _ := d.applier.Running("batch")
			d.deleteRevisions()
			c.after(d)
			d.wantNextReconcile(historyCheckInterval)
			d.wantStored("batch-" + runs.Blueprint.Hash)
			d.editInvalid()
			d = d.restartProcess("third")
			d.wantRuns(runs.Blueprint.Hash, "False PreviousRuns")
		})
	}
}

// editInvalid replaces the profile in the cluster by one that is invalid, and reconciles it.
func (d *testEnv) editInvalid() {
	d.t.Helper()
	d.reject = rejectionOf(noSuchPlugin)
	d.edit(d.cluster[0].GetGeneration() + 1)
}

// followedBefore makes the process one that applied the profile as a follower.
func (d *testEnv) followedBefore() {
	d.t.Helper()
	*d = *d.startProcess("follower")
	d.elected = make(chan struct{})
	d.mustReconcile()
}

// Its user deleted the profile that runs, and this one was never valid.
func TestWhatRunsOfADeletedProfileIsNotStoredForANewOne(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.cluster = fakeReader{newProfile(2, func(p *v1alpha1.SchedulingProfile) { p.UID = "batch-2" })}
	d.reject = rejectionOf(noSuchPlugin)
	d.deleteRevisions()
	d.mustReconcile()
	d.wantStored()
}

func TestARestartOnABadSpecRunsWhatRanLast(t *testing.T) {
	d := newTestEnv(t, newProfile(5))
	d.mustReconcile()
	d.prove()
	d.edit(6)
	d.serve()
	d.reject = rejectionOf(noSuchPlugin)
	d.edit(7)
	d.wantRuns("hash-6", "False PreviousRuns")
	d = d.restartProcess("second")
	d.wantRuns("hash-6", "False PreviousRuns")
	message := fmt.Sprint(d.statuses.last(t).status["conditions"])
	if !strings.Contains(message, "generation 6 keeps running since ") || !strings.Contains(message, "generation 7 refused: ") {
		t.Errorf("conditions %s", message)
	}
	if programmed := d.statuses.last(t).status["programmed"].(map[string]any); programmed["revision"] != "batch-hash-6" || programmed["generation"] != 6.0 {
		t.Errorf("programmed %v", programmed)
	}
}

func TestNothingRunsWhenNeitherSpecNorRevisionCompiles(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	d.wantRuns("", "False NothingRuns")
}

func TestARevisionOfAnotherProfileOfTheNameIsNotRun(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.cluster = fakeReader{newProfile(2, func(p *v1alpha1.SchedulingProfile) { p.UID = "batch-2" })}
	d.reject = rejectionOf(noSuchPlugin)
	d.restartProcess("second").wantRuns("", "False NothingRuns")
}

func TestAGracefulShutdownIsNoCrash(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	for _, process := range []string{"second", "third", "fourth"} {
		d.shutDown()
		d = d.restartProcess(process)
		d.wantRuns("hash-1", "True Programmed")
	}
	d.wantStored("batch-hash-1 on probation")
}

func TestASwapBackIsNoCrash(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	for range 3 {
		d.edit(2)
		d.edit(1)
	}
	d.wantRuns("hash-1", "True Programmed")
	d.wantStored("batch-hash-2 on probation", "batch-hash-1 on probation")
}

func TestACrashOfAProvedRevisionIsNotCounted(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.prove()
	for _, process := range []string{"second", "third", "fourth"} {
		d = d.restartProcess(process)
		d.wantRuns("hash-1", "True Programmed")
	}
	d.wantStored("batch-hash-1")
}

func TestAFollowerDoesNotRunARevisionOnProbation(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	follower := newTestEnv(t, newProfile(1))
	follower.revisions = d.revisions
	elected := make(chan struct{})
	follower.elected = elected
	follower.options.History = history.New(history.Options{
		Revisions: d.revisions.AppsV1().ControllerRevisions("berth-system"), Process: "second", Clock: d.clock,
	})
	if result, err := follower.reconcile(); err != nil || result.RequeueAfter != historyPollInterval {
		t.Errorf("reconciled again after %v, %v", result.RequeueAfter, err)
	}
	follower.wantCalls("pause batch false")
	d.prove()
	follower.mustReconcile()
	follower.wantCalls("apply hash-1", "pause batch false")
	d.wantStored("batch-hash-1")
}

func TestAProfileRunsWhenItsHistoryCannotBeStored(t *testing.T) {
	revisions := appsv1.Resource("controllerrevisions")
	large := strings.Repeat("x", history.MaxRevisionSize)
	for name, c := range map[string]struct {
		verb string
		err  error
		edit func(*v1alpha1.SchedulingProfile)
		says string
	}{
		"the namespace does not exist": {
			verb: "create", err: apierrors.NewNotFound(appsv1.Resource("namespaces"), "berth-system"), says: "there is no namespace to store it in",
		},
		"reading is forbidden": {verb: "list", err: apierrors.NewForbidden(revisions, "", errors.New("no")), says: "is forbidden"},
		"writing is forbidden": {verb: "create", err: apierrors.NewForbidden(revisions, "", errors.New("no")), says: "is forbidden"},
		"the revision is too large": {
			edit: func(p *v1alpha1.SchedulingProfile) {
				p.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "Own", Args: &runtime.RawExtension{Raw: []byte(`{"x":"` + large + `"}`)}}}
			},
			says: "at most 1048576 (1 MiB) are stored",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			if c.edit != nil {
				c.edit(d.cluster[0].(*v1alpha1.SchedulingProfile))
			}
			if c.err != nil {
				d.revisions.PrependReactor(c.verb, "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, c.err })
			}
			for range 2 {
				d.mustReconcile()
				d.wantRuns("hash-1", "True Programmed")
				if message := fmt.Sprint(d.statuses.last(t).status["conditions"]); !strings.Contains(message, "history is kept in memory only") || !strings.Contains(message, c.says) {
					t.Errorf("conditions %s", message)
				}
			}
			if _, named := d.statuses.last(t).status["programmed"].(map[string]any)["revision"]; named {
				t.Error("the status names a revision that is not stored")
			}
		})
	}
}

// failRevisions makes the next n calls with a verb fail.
func (d *testEnv) failRevisions(verb string, n int, err error) {
	d.revisions.PrependReactor(verb, "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		n--
		return n >= 0, nil, err
	})
}

// wantNextReconcile reconciles, and fails the test unless the next reconcile is after the
// given time; 0 for never.
func (d *testEnv) wantNextReconcile(after time.Duration) {
	d.t.Helper()
	if result, err := d.reconcile(); err != nil || result.RequeueAfter != after {
		d.t.Errorf("reconciled again after %v, %v; want %v", result.RequeueAfter, err, after)
	}
}

func TestAHistoryThatCouldNotBeStoredIsStoredLater(t *testing.T) {
	for name, err := range map[string]error{
		"a create fails":               apierrors.NewInternalError(errors.New("etcd has no leader")),
		"the namespace does not exist": apierrors.NewNotFound(appsv1.Resource("namespaces"), "berth-system"),
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.failRevisions("create", 1, err)
			d.wantNextReconcile(historyRetryInterval)
			if got := d.message(v1alpha1.ConditionProgrammed); !strings.Contains(got, "history is kept in memory only") {
				t.Errorf("message %s", got)
			}
			d.wantStored()
			d.clock.Step(historyRetryInterval)
			d.wantNextReconcile(history.Probation - historyRetryInterval)
			d.wantMessage(v1alpha1.ConditionProgrammed, "generation 1 runs since 12:00")
			d.wantStored("batch-hash-1 on probation, served")
		})
	}
}

func TestAHistoryThatCouldNotBeReadIsStoredLater(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	const inMemory = 2 // reconciles, after as many as return an error
	d.failRevisions("list", 2+inMemory, apierrors.NewInternalError(errors.New("etcd has no leader")))
	for range 2 {
		if _, err := d.reconcile(); err == nil {
			t.Error("no error, so that the work queue does not retry")
		}
	}
	for range inMemory {
		d.wantNextReconcile(historyRetryInterval)
		d.clock.Step(history.Probation) // it is proved in memory
	}
	d.wantNextReconcile(historyCheckInterval)
	d.wantStored("batch-hash-1")
}

func TestARevisionIsProvedLaterWhenThatCouldNotBeWritten(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.serve()
	d.clock.Step(history.Probation)
	d.failRevisions("update", 1, apierrors.NewConflict(appsv1.Resource("controllerrevisions"), "batch-hash-1", errors.New("it was changed")))
	d.wantNextReconcile(historyRetryInterval)
	d.wantStored("batch-hash-1 on probation, served")
	d.clock.Step(historyRetryInterval)
	d.wantNextReconcile(historyCheckInterval)
	d.wantStored("batch-hash-1")
	d.revisions.ClearActions()
	d.wantNextReconcile(historyCheckInterval)
	for _, action := range d.revisions.Actions() {
		if action.GetVerb() != "list" {
			t.Errorf("%s although nothing changed", action.GetVerb())
		}
	}
}

func TestAHistoryThatCanNeverBeStoredIsNotTriedAgain(t *testing.T) {
	t.Run("no namespace is known", func(t *testing.T) {
		d := newTestEnv(t, newProfile(1))
		d.options.History = history.New(history.Options{Process: "one", Clock: d.clock})
		d.mustReconcile()
		d.clock.Step(history.Probation)
		d.wantNextReconcile(0)
	})
	t.Run("the revision is too large", func(t *testing.T) {
		large := []byte(`{"x":"` + strings.Repeat("x", history.MaxRevisionSize) + `"}`)
		d := newTestEnv(t, newProfile(1, func(p *v1alpha1.SchedulingProfile) {
			p.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "Own", Args: &runtime.RawExtension{Raw: large}}}
		}))
		d.wantNextReconcile(0)
	})
}

func TestATransientErrorReadingTheHistoryIsRetried(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.revisions.PrependReactor("list", "controllerrevisions", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
	})
	for range 2 {
		if _, err := d.reconcile(); err == nil {
			t.Error("no error, so that the work queue does not retry")
		}
		d.wantCalls()
	}
	d.mustReconcile()
	d.wantRuns("hash-1", "True Programmed")
}

func withManualActivation(approved string) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Spec.Activation = v1alpha1.ActivationManual
		if approved != "" {
			p.Annotations = map[string]string{v1alpha1.AnnotationApprovedHash: approved}
		}
	}
}

func TestAManualProfileWaitsForItsHash(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withManualActivation("")))
	d.mustReconcile()
	d.wantRuns("", "False AwaitingApproval")
	d.wantStored()
	d.cluster = fakeReader{newProfile(1, withManualActivation("hash-1"))}
	d.mustReconcile()
	d.wantRuns("hash-1", "True Programmed")

	d.cluster = fakeReader{newProfile(2, withManualActivation("hash-1"))}
	d.mustReconcile()
	d.wantRuns("hash-1", "False AwaitingApproval")
	want := "generation 1 keeps running since 12:00; generation 2 with hash hash-2 waits for approval: " +
		"kubectl annotate sprof batch --overwrite berth.dev/approved-hash=hash-2"
	if message := fmt.Sprint(d.statuses.last(t).status["conditions"]); !strings.Contains(message, want) {
		t.Errorf("conditions %s do not say %q", message, want)
	}

	d = d.restartProcess("second") // the approved revision runs, although another hash waits
	d.wantRuns("hash-1", "False AwaitingApproval")
	d.cluster = fakeReader{newProfile(2, withManualActivation("hash-2"))}
	d.mustReconcile()
	d.wantRuns("hash-2", "True Programmed")
}

func TestARevisionOfAlmostAMebibyteIsStored(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	p := d.cluster[0].(*v1alpha1.SchedulingProfile)
	large := strings.Repeat("x", history.MaxRevisionSize-64*1024)
	p.Spec.PluginConfig = []v1alpha1.PluginArguments{{Name: "Own", Args: &runtime.RawExtension{Raw: []byte(`{"x":"` + large + `"}`)}}}
	d.mustReconcile()
	d.wantRuns("hash-1", "True Programmed")
	d.wantStored("batch-hash-1 on probation")
}

func TestARevisionStoredUnderAnotherAPIVersionIsRead(t *testing.T) {
	for name, c := range map[string]struct{ version, runs string }{
		"a version with the same schema is run": {"v1beta1", "hash-1"},
		"an unknown version is not run":         {"v2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.mustReconcile()
			d.prove()
			revisions := d.revisions.AppsV1().ControllerRevisions("berth-system")
			stored, err := revisions.Get(t.Context(), "batch-hash-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			stored.Data.Raw = []byte(strings.ReplaceAll(string(stored.Data.Raw), "berth.dev/v1alpha1", "berth.dev/"+c.version))
			if _, err := revisions.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			d.cluster = fakeReader{newProfile(2, withManualActivation("none"))}
			d = d.restartProcess("second")
			d.wantRuns(c.runs, "False AwaitingApproval")
		})
	}
}
