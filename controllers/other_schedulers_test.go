package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berthdev/berth/api/v1alpha1"
)

var otherLeaseName = types.NamespacedName{Namespace: "kube-system", Name: "kube-scheduler"}

// otherLease returns the Lease of another scheduler, changed by edits. Its times are those
// of another machine's clock: a year before this one's.
func otherLease(version string, edits ...func(*coordinationv1.Lease)) fakeReader {
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: otherLeaseName.Namespace, Name: otherLeaseName.Name, UID: "a", ResourceVersion: version},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("master-1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(startTime.AddDate(-1, 0, 0))),
		},
	}
	for _, edit := range edits {
		edit(lease)
	}
	return fakeReader{lease}
}

// released is what kube-scheduler writes into its Lease when it ends gracefully.
func released(lease *coordinationv1.Lease) {
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(""), ptr.To[int32](1)
}

func TestDefaultSchedulerIsNotServedBesideAnotherScheduler(t *testing.T) {
	name, lease := otherLeaseName, otherLease("1")
	takeOver := func(p *v1alpha1.SchedulingProfile) {
		p.Annotations = map[string]string{v1alpha1.AnnotationTakeOver: "true"}
	}
	def := func(p *v1alpha1.SchedulingProfile) { p.Name = "default-scheduler" }
	byDefault := []string{"default-scheduler"}
	expires := func(d *testEnv) { d.clock.Step(15 * time.Second) }
	for testName, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		others  OtherSchedulers
		before  fakeReader
		passes  func(d *testEnv) // called between two reconciles
		says    string           // empty when the profile runs
	}{
		"no Lease is named": {profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault}, passes: expires, says: "--other-scheduler-lease"},
		"the Lease does not exist": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, passes: expires, says: "not found",
		},
		"the Lease is renewed while this process observes it": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: lease,
			passes: func(d *testEnv) { d.live = otherLease("2"); d.clock.Step(time.Hour) }, says: "master-1",
		},
		"the Lease is not renewed for almost its duration": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: lease,
			passes: func(d *testEnv) { d.clock.Step(14 * time.Second) }, says: "master-1",
		},
		"the Lease was released, and is not renewed for almost the duration of kube-scheduler": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: otherLease("1", released),
			passes: func(d *testEnv) { d.clock.Step(14 * time.Second) }, says: "another scheduler, unless",
		},
		"the Lease was released, and is not renewed for the duration of kube-scheduler": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: otherLease("1", released), passes: expires,
		},
		"the Lease has a longer duration than kube-scheduler's": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, passes: expires, says: "master-1",
			before: otherLease("1", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To[int32](60) }),
		},
		"the Lease is not renewed for its duration": {
			profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: lease, passes: expires,
		},
		"a Lease that was created again has another UID": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: lease,
			passes: func(d *testEnv) {
				d.live = otherLease("1", func(l *coordinationv1.Lease) { l.UID = "b" })
				d.clock.Step(time.Minute)
			}, says: "master-1",
		},
		"the administrator says that no other scheduler serves the name": {profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, None: true}},
		"the profile takes the name over": {
			profile: newProfile(1, def, takeOver), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: lease,
		},
		"the profile takes over a name that the flag gives to another scheduler": {
			profile: newProfile(1, def, takeOver), others: OtherSchedulers{Names: byDefault, Explicit: true}, says: "--other-schedulers",
		},
		"the flag gives another name to another scheduler": {
			profile: newProfile(1), others: OtherSchedulers{Names: []string{"batch"}, Explicit: true}, says: "--other-schedulers",
		},
		"the name is not default-scheduler": {profile: newProfile(1), others: OtherSchedulers{Names: byDefault}},
	} {
		t.Run(testName, func(t *testing.T) {
			d := newTestEnv(t, c.profile)
			d.options.OtherSchedulers, d.live = c.others, c.before
			d.mustReconcileNamed(c.profile.Name)
			if c.passes != nil {
				c.passes(d)
				d.mustReconcileNamed(c.profile.Name)
			}
			if _, runs := d.applier.Running(c.profile.Name); runs != (c.says == "") {
				t.Errorf("runs: %t", runs)
			}
			status := d.statuses.last(t).status["conditions"]
			if text := fmt.Sprint(status); strings.Contains(text, "NameServedElsewhere") != (c.says != "") || !strings.Contains(text, c.says) {
				t.Errorf("conditions %s, want %q in them", text, c.says)
			}
		})
	}
}

// frozenReader freezes the process within each request, after the API server answered.
type frozenReader struct {
	client.Reader
	freeze func()
}

func (r frozenReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	defer r.freeze()
	return r.Reader.Get(ctx, key, into, opts...)
}

func TestAFreezeIsNoTimeInWhichTheLeaseDidNotChange(t *testing.T) {
	p := newProfile(1, withName(defaultSchedulerName))
	d := newTestEnv(t, p)
	d.options.OtherSchedulers, d.live = OtherSchedulers{Lease: &otherLeaseName}, otherLease("1")
	d.profileReconciler.live = frozenReader{&d.live, func() { d.clock.Step(time.Hour) }}
	for range 2 {
		d.mustReconcileNamed(p.Name)
	}
	if _, runs := d.applier.Running(p.Name); runs {
		t.Error("the profile runs, and nobody knows whether the other scheduler renewed its Lease during the freeze")
	}
}

func TestAProfileThatRunsSaysThatTheOtherSchedulerIsBack(t *testing.T) {
	p := newProfile(1, withName(defaultSchedulerName))
	d := newTestEnv(t, p)
	d.options.OtherSchedulers = OtherSchedulers{Lease: &otherLeaseName}
	for _, step := range []struct {
		lease    fakeReader
		accepted string
		runs     bool
		says     string // in the conditions
		event    string
	}{
		{otherLease("1"), "Accepted False NameServedElsewhere", false, "by master-1, unless", "Warning NameServedElsewhere"},
		{otherLease("1"), "Accepted True Accepted", true, "", "Normal Ready"},
		{otherLease("2"), "Accepted False NameServedElsewhere", true, "by master-1 as well", "Warning NameServedElsewhere"},
		{otherLease("3", released), "Accepted False NameServedElsewhere", true, "by another scheduler as well", ""},
		{otherLease("3", released), "Accepted True Accepted", true, "", "Normal Ready"},
	} {
		d.live, d.events.events = step.lease, nil
		result, err := d.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: p.Name}})
		if err != nil || result.RequeueAfter == 0 || result.RequeueAfter > otherSchedulerPollInterval {
			t.Errorf("%s: reconciled again after %v, %v", step.accepted, result.RequeueAfter, err)
		}
		status := d.statuses.last(t)
		if got := status.conditions(); !slices.Contains(got, step.accepted) {
			t.Errorf("conditions %q, want %s", got, step.accepted)
		}
		if text := fmt.Sprint(status.status["conditions"]); !strings.Contains(text, step.says) {
			t.Errorf("conditions %s, want %q in them", text, step.says)
		}
		if _, runs := d.applier.Running(p.Name); runs != step.runs {
			t.Errorf("%s: runs: %t, want %t", step.accepted, runs, step.runs)
		}
		if text := strings.Join(d.events.events, ", "); !strings.Contains(text, step.event) {
			t.Errorf("%s: Events %q, want %s", step.accepted, text, step.event)
		}
		d.clock.Step(minLeaseDuration)
	}
}

// kube-scheduler tries those pods and writes their conditions.
func TestPodsThatWereHeldAreLeftToTheOtherSchedulerWhenItIsBack(t *testing.T) {
	d := newTestEnv(t, newProfile(1, withName(defaultSchedulerName)))
	d.options.OtherSchedulers, d.reject = OtherSchedulers{Lease: &otherLeaseName}, rejectionOf(noSuchPlugin)
	for _, step := range []struct {
		version string
		held    bool
	}{{"1", false}, {"1", true}, {"2", false}, {"2", true}} {
		d.live = otherLease(step.version)
		d.mustReconcileNamed(defaultSchedulerName)
		if why, held := d.applier.held[defaultSchedulerName]; held != step.held {
			t.Errorf("with version %s of the Lease, the pods are held: %t %q, want %t", step.version, held, why, step.held)
		}
		d.clock.Step(minLeaseDuration)
	}
}

// forbiddenReader is a client.Reader whose requests are forbidden.
type forbiddenReader struct{ client.Reader }

func (forbiddenReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(coordinationv1.Resource("leases"), key.Name, errors.New("no role grants it"))
}

// No later attempt succeeds by itself, so that no reconcile may end there.
func TestAProfileThatRunsIsReconciledWithoutTheRightToReadTheLease(t *testing.T) {
	clusterWith := func(generation int64, edits ...func(*v1alpha1.SchedulingProfile)) fakeReader {
		return fakeReader{newProfile(generation, append(edits, withName(defaultSchedulerName))...)}
	}
	d := newTestEnv(t)
	d.options.OtherSchedulers, d.live = OtherSchedulers{Lease: &otherLeaseName}, otherLease("1")
	d.cluster = clusterWith(1, withPausedState)
	d.mustReconcileNamed(defaultSchedulerName)
	d.clock.Step(minLeaseDuration)
	d.mustReconcileNamed(defaultSchedulerName)

	d.profileReconciler.live, d.applier.calls = forbiddenReader{}, nil
	d.cluster = clusterWith(2)
	if after := d.reconcileNamed(defaultSchedulerName).RequeueAfter; after != otherSchedulerPollInterval {
		t.Errorf("reconciled again after %v, want %v", after, otherSchedulerPollInterval)
	}
	d.wantCalls("pause default-scheduler false")
	d.wantRunning(defaultSchedulerName, "hash-1")
	status := d.statuses.last(t)
	if got := status.conditions(); !slices.Contains(got, "Accepted False NameServedElsewhere") || status.status["observedGeneration"] != 2.0 {
		t.Errorf("conditions %q of generation %v", got, status.status["observedGeneration"])
	}

	d.profileReconciler.live = &d.live
	d.mustReconcileNamed(defaultSchedulerName)
	d.wantRunning(defaultSchedulerName, "hash-2")
}

// As long as the Lease cannot be read, nobody knows whether another scheduler is back.
func TestAReconcileThatFailsIsRetriedAsOftenAsTheLeaseIsRead(t *testing.T) {
	delays, request := ReconcileDelays(), reconcile.Request{NamespacedName: types.NamespacedName{Name: defaultSchedulerName}}
	for range 20 {
		if delay := delays.When(request); delay > otherSchedulerPollInterval {
			t.Fatalf("after %d failures, it is retried after %v", delays.NumRequeues(request), delay)
		}
	}
}
