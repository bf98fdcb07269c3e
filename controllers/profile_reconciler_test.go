package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
)

// testEnv is a profileReconciler with fakes for everything that it uses.
type testEnv struct {
	*profileReconciler
	t        *testing.T
	cluster  fakeReader
	live     fakeReader
	applier  *fakeApplier
	statuses *fakeStatusClient
	events   *fakeRecorder
	clock    *testclock.FakeClock
	// revisions is the client of the stored history.
	revisions *fake.Clientset
	// reject is the result of compiling the spec, if it is set. Otherwise, and for
	// revisions of the history, the result is a Blueprint whose hash is the
	// generation's.
	reject *compile.Rejection
	// outOfTree are the generations that enable the plugin Own, which is not built in.
	outOfTree []int64
}

func newTestEnv(t *testing.T, cluster ...*v1alpha1.SchedulingProfile) *testEnv {
	clock := testclock.NewFakeClock(startTime)
	d := &testEnv{
		t: t, statuses: &fakeStatusClient{}, events: &fakeRecorder{}, clock: clock,
		applier: &fakeApplier{running: map[string]profile.Running{}, held: map[string]string{}, now: clock.Now}, revisions: fake.NewClientset(),
	}
	for _, p := range cluster {
		d.cluster = append(d.cluster, p)
	}
	d.profileReconciler = newProfileReconciler(Cluster{Cache: &d.cluster, Live: &d.live, Status: d.statuses, Elected: elected()}, Options{
		Applier: d.applier, Ledger: decision.NewLedger(clock.Now), Recorder: d.events, Clock: clock,
		History: history.New(history.Options{
			Revisions: d.revisions.AppsV1().ControllerRevisions("berth-system"), Process: "first", Clock: clock,
		}),
	})
	d.compile = func(in compile.Input) (*compile.Blueprint, *compile.Rejection) {
		if d.reject != nil && in.Profile.UID != "" {
			return nil, d.reject
		}
		b := &compile.Blueprint{Name: in.Profile.Name, Generation: in.Profile.Generation, Hash: fmt.Sprint("hash-", in.Profile.Generation)}
		if slices.Contains(d.outOfTree, in.Profile.Generation) {
			b.Chains = framework.Chains{framework.Filter: {{Name: "Own"}}}
		}
		return b, nil
	}
	return d
}

// reconcile reconciles the profile batch. The calls of the Applier before it are
// dropped.
func (d *testEnv) reconcile() (reconcile.Result, error) {
	d.t.Helper()
	d.applier.calls = nil
	return d.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "batch"}})
}

func (d *testEnv) mustReconcile() {
	d.t.Helper()
	if _, err := d.reconcile(); err != nil {
		d.t.Fatal(err)
	}
}

// mustReconcileNamed reconciles the profile of that name.
func (d *testEnv) mustReconcileNamed(name string) {
	d.t.Helper()
	if _, err := d.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *testEnv) wantCalls(want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, d.applier.calls); diff != "" {
		d.t.Errorf("calls of the Applier (-want +got):\n%s", diff)
	}
}

func TestAPauseComesBeforeTheSwapAndItsEndAfterIt(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withPausedState))
	d.mustReconcile()
	d.wantCalls("pause batch true", "try hash-1", "apply hash-1")

	d.cluster = fakeReader{newProfile(2)}
	d.mustReconcile()
	d.wantCalls("try hash-2", "apply hash-2", "pause batch false")
}

func TestAPauseIsObeyedWhereTheSpecIsRefused(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withPausedState))
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	d.wantCalls("pause batch true", "hold batch")
}

func TestADeletedProfileIsForgotten(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	if _, known := d.options.Ledger.History("batch", 1); !known {
		t.Error("the ledger does not count for a profile that runs")
	}
	d.cluster = nil
	d.mustReconcile()
	d.wantCalls("delete batch")
	if _, known := d.options.Ledger.History("batch", 1); known {
		t.Error("the ledger still counts for the profile")
	}
	if len(d.status.written) > 0 {
		t.Errorf("the status writer remembers %v", d.status.written)
	}
}

func TestAFollowerBuildsAndWritesNothing(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.options.History = history.New(history.Options{Clock: d.clock}) // without a history a follower waits for nothing
	elected := make(chan struct{})
	d.elected = elected
	d.mustReconcile()
	d.wantCalls("try hash-1", "apply hash-1", "pause batch false")
	if len(d.statuses.writes) > 0 || len(d.events.events) > 0 {
		t.Errorf("a follower wrote %v and reported %v", d.statuses.writes, d.events.events)
	}
	close(elected)
	d.mustReconcile()
	d.statuses.last(t)
}

func TestAFailedBuildIsReportedAndRetried(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.err = errNoLicence
	d.wantNextReconcile(initialRetryDelay)
	want := []string{"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed False BuildFailed", "Ready False BuildFailed", "Stalled True BuildFailed"}
	if diff := cmp.Diff(want, d.statuses.last(t).conditions()); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestShutdownWritesNoConditions(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.applier.err = context.Canceled
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "batch"}})
	if !errors.Is(err, context.Canceled) || len(d.statuses.writes) > 0 {
		t.Errorf("got error %v and writes %v", err, d.statuses.writes)
	}
}

func TestStatusProgrammedDescribesWhatRuns(t *testing.T) {
	d := newTestEnv(t, newProfile(6))
	d.mustReconcile()
	d.cluster = fakeReader{newProfile(7)}
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	written := d.statuses.last(t)
	if written.manager != "berth-controller" || written.resourceVersion != "10" || written.name != "batch" {
		t.Errorf("written by %q over version %q of %q", written.manager, written.resourceVersion, written.name)
	}
	want := map[string]any{"generation": 6.0, "hash": "hash-6", "revision": "batch-hash-6", "time": "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(any(want), written.status["programmed"]); diff != "" {
		t.Errorf("programmed (-want +got):\n%s", diff)
	}
	if got := written.status["observedGeneration"]; got != 7.0 {
		t.Errorf("observedGeneration is %v, want 7", got)
	}
}

func TestOnlyTransitionsMakeEventsAndSetTheTransitionTime(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	d.events.events = nil
	d.clock.Step(time.Minute)
	d.cluster = fakeReader{newProfile(2)}
	d.mustReconcile()
	if len(d.events.events) > 0 {
		t.Errorf("a swap that changes no condition reported %v", d.events.events)
	}

	d.clock.Step(time.Minute)
	d.cluster = fakeReader{newProfile(3)}
	d.reject = rejectionOf(noSuchPlugin)
	d.mustReconcile()
	d.mustReconcile()                                  // the cache has no conditions yet
	want := []string{"Warning UnknownPlugin Accepted"} // Programmed, Ready and Stalled are derived
	if diff := cmp.Diff(want, d.events.events); diff != "" {
		t.Errorf("events of a bad edit (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"Accepted 2026-03-01T12:02:00Z", "ResolvedRefs 2026-03-01T12:00:00Z", "Programmed 2026-03-01T12:02:00Z",
		"Ready 2026-03-01T12:02:00Z", "Stalled 2026-03-01T12:02:00Z",
	}, d.statuses.last(t).times()); diff != "" {
		t.Errorf("lastTransitionTime (-want +got):\n%s", diff)
	}

	d.events.events = nil
	d.reject = nil
	d.mustReconcile()
	want = []string{"Normal Accepted Accepted", "Normal Programmed Programmed", "Normal Ready Ready"}
	if diff := cmp.Diff(want, d.events.events); diff != "" {
		t.Errorf("events of the corrected edit (-want +got):\n%s", diff)
	}
}

// Each change of the spec is a reconcile that fails, and the delay of the work queue grows with
// each of them.
func TestAStatusThatCouldNotBeWrittenIsTriedAgainSoon(t *testing.T) {
	d := newTestEnv(t)
	d.statuses.reject = func(statusWrite) error { return errors.New("no endpoints available for the webhook") }
	for generation := range int64(12) {
		d.cluster = fakeReader{newProfile(1 + generation)}
		if result, err := d.reconcile(); err != nil || result.RequeueAfter != statusRetryInterval {
			t.Fatalf("generation %d: %+v, %v, want another attempt after %v", 1+generation, result, err, statusRetryInterval)
		}
	}
	d.statuses.reject = nil
	d.mustReconcile()
	if got := d.statuses.last(t).status["observedGeneration"]; got != 12.0 {
		t.Errorf("the status is of generation %v, want 12", got)
	}
}

func TestAnErrorIsOneEvent(t *testing.T) {
	fieldError := func(path, detail string) compile.FieldError {
		return compile.FieldError{Condition: "Accepted", Reason: "InvalidArguments", Path: path, Detail: detail}
	}
	const args, runs = "spec.pluginConfig[0].args", "generation 1 keeps running since 12:00; "
	x, y, z := fieldError(args+".x", "unknown field"), fieldError(args+".y", "wrong type"), fieldError(args+".y", "too small")
	for name, c := range map[string]struct {
		edits        [][]compile.FieldError
		notes, about []string
	}{
		"each field has an Event of its own that refers to it": {
			[][]compile.FieldError{{x, y}},
			[]string{runs + "generation 2 refused: " + args + ".x: unknown field", runs + "generation 2 refused: " + args + ".y: wrong type"},
			[]string{args + ".x", args + ".y"},
		},
		"two errors of one field are one Event": {
			[][]compile.FieldError{{y, z}},
			[]string{runs + "generation 2 refused: " + args + ".y: wrong type; " + args + ".y: too small"}, []string{args + ".y"},
		},
		"an edit that leaves an error reports the new one only": {
			[][]compile.FieldError{{x}, {x, y}},
			[]string{runs + "generation 2 refused: " + args + ".x: unknown field", runs + "generation 3 refused: " + args + ".y: wrong type"},
			[]string{args + ".x", args + ".y"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			d.mustReconcile()
			d.events.notes = nil
			for i, fieldErrors := range c.edits {
				d.cluster = fakeReader{newProfile(int64(2 + i))}
				d.reject = &compile.Rejection{Errors: fieldErrors}
				d.mustReconcile()
				d.mustReconcile()
			}
			if diff := cmp.Diff(c.notes, d.events.notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.about, d.events.fields); diff != "" {
				t.Errorf("about (-want +got):\n%s", diff)
			}
		})
	}
}

func (a statusWrite) times() []string {
	var out []string
	for _, c := range a.status["conditions"].([]any) {
		m := c.(map[string]any)
		out = append(out, fmt.Sprint(m["type"], " ", m["lastTransitionTime"]))
	}
	return out
}

func TestANewProcessRepeatsNoEventsOfTheLastOne(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	again := newTestEnv(t, newProfile(1, func(p *v1alpha1.SchedulingProfile) {
		p.Status.Conditions = d.status.written[profileKey("batch")].conditions
	}))
	again.mustReconcile()
	if len(again.events.events) > 0 {
		t.Errorf("reported %v", again.events.events)
	}
}

// Another controller may write conditions into the same list, under a field manager of its own.
func TestANewProcessReportsTheEndOfBerthsConditionsOnly(t *testing.T) {
	d := newTestEnv(t, newProfile(1))
	d.mustReconcile()
	stored := append(d.status.written[profileKey("batch")].conditions,
		metav1.Condition{Type: "example.com/Backed-Up", Status: metav1.ConditionTrue, Reason: "Copied"},
		metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: "PluginHangs"})
	again := newTestEnv(t, newProfile(1, func(p *v1alpha1.SchedulingProfile) { p.Status.Conditions = stored }))
	again.mustReconcile()
	if diff := cmp.Diff([]string{"Degraded is over"}, again.events.notes); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

func TestConditionsAreNotWrittenToANewerObject(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "schedulingprofiles"}, "batch", errors.New("the object has been modified"))
	tests := map[string]struct {
		live  *v1alpha1.SchedulingProfile
		wrote []string
	}{
		"after another client's write the status is written again": {
			live:  newProfile(1, func(p *v1alpha1.SchedulingProfile) { p.ResourceVersion = "11" }),
			wrote: []string{"11"},
		},
		"a status of an older generation is replaced": {
			live:  newProfile(2, func(p *v1alpha1.SchedulingProfile) { p.ResourceVersion, p.Status.ObservedGeneration = "11", 1 }),
			wrote: []string{"11"},
		},
		"a status of a newer generation stays: the cache of a new leader may lag": {
			live: newProfile(2, func(p *v1alpha1.SchedulingProfile) { p.ResourceVersion, p.Status.ObservedGeneration = "11", 2 }),
		},
		"a recreated object gets its conditions from its own reconcile": {
			live: newProfile(1, func(p *v1alpha1.SchedulingProfile) { p.ResourceVersion, p.UID = "12", "batch-2" }),
		},
		"a deleted object gets no conditions": {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newTestEnv(t, newProfile(1))
			if tt.live != nil {
				d.live = fakeReader{tt.live}
			}
			d.statuses.reject = func(a statusWrite) error {
				if tt.live == nil || a.resourceVersion != tt.live.ResourceVersion {
					return conflict
				}
				return nil
			}
			d.mustReconcile()
			var wrote []string
			for _, a := range d.statuses.writes {
				wrote = append(wrote, a.resourceVersion)
			}
			if !slices.Equal(wrote, tt.wrote) {
				t.Errorf("wrote with resourceVersions %v, want %v", wrote, tt.wrote)
			}
			if reported := len(d.events.events) > 0; reported != (tt.wrote != nil) {
				t.Errorf("reported %v", d.events.events)
			}
		})
	}
}
