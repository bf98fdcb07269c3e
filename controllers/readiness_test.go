package controllers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

func withProgrammed(generation int64, status metav1.ConditionStatus) func(*v1alpha1.SchedulingProfile) {
	return func(p *v1alpha1.SchedulingProfile) {
		p.Status.Conditions = []metav1.Condition{{
			Type: string(v1alpha1.ConditionProgrammed), Status: status, ObservedGeneration: generation, Reason: "Test",
		}}
	}
}

func TestAReplicaIsReadyUnlessItWouldRefuseWhatRuns(t *testing.T) {
	for testName, c := range map[string]struct {
		profile  *v1alpha1.SchedulingProfile
		rejected bool
		fails    bool
	}{
		"it accepts what runs":                          {profile: newProfile(3, withProgrammed(3, "True"))},
		"it rejects what runs":                          {profile: newProfile(3, withProgrammed(3, "True")), rejected: true, fails: true},
		"it rejects what was rejected before":           {profile: newProfile(3, withProgrammed(3, "False")), rejected: true},
		"it rejects a generation after the running one": {profile: newProfile(3, withProgrammed(2, "True")), rejected: true},
		"it rejects a profile without a status":         {profile: newProfile(1), rejected: true},
		"it accepts a profile without a status":         {profile: newProfile(1)},
	} {
		t.Run(testName, func(t *testing.T) {
			d := newTestEnv(t, c.profile)
			d.options.Version = "2.0"
			if c.rejected {
				d.reject = rejectionOf(noSuchPlugin)
			}
			check := &ReadinessCheck{}
			if check.Ready() == nil {
				t.Error("ready before the profiles were checked")
			}
			k := &readinessChecker{check: check, reconciler: d.profileReconciler, recorder: d.events, clock: d.clock}
			for range 2 {
				if fails, err := k.checkProfiles(t.Context()); err != nil || fails != c.fails {
					t.Fatalf("fails: %t, %v; want %t", fails, err, c.fails)
				}
			}
			err := check.Ready()
			if !c.fails {
				if err != nil {
					t.Errorf("not ready: %v", err)
				}
				return
			}
			const want = "version 2.0 of Berth would refuse what runs of 1 SchedulingProfiles; the log and Events on them say which, and why"
			if err == nil || err.Error() != want {
				t.Errorf("got error %v, want %s", err, want)
			}
			if len(d.events.events) != 1 || d.events.events[0] != "Warning ReplicaNotReady Start" {
				t.Errorf("events %q, want one", d.events.events)
			}
			for _, want := range []string{"version 2.0", "batch", noSuchPlugin.Path} {
				if len(d.events.notes) != 1 || !strings.Contains(d.events.notes[0], want) {
					t.Errorf("the Event says %q, which does not name %q", d.events.notes, want)
				}
			}
			d.reject = nil // the user corrects the profile
			if fails, _ := k.checkProfiles(t.Context()); fails || check.Ready() != nil {
				t.Error("not ready although the profile is valid")
			}
		})
	}
}

// fakeCreator records the names of the objects that it creates.
type fakeCreator struct {
	client.Writer
	names []string
}

func (m *fakeCreator) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	m.names = append(m.names, object.GetName())
	return nil
}

func TestTheDefaultProfileIsCreatedOnlyWhereThereIsNone(t *testing.T) {
	for testName, c := range map[string]struct {
		cache, live fakeReader
		want        int
	}{
		"there is no profile":                             {want: 1},
		"there is a profile":                              {cache: fakeReader{newProfile(1)}, live: fakeReader{newProfile(1)}},
		"there is a profile that is not in the cache yet": {live: fakeReader{newProfile(1)}},
	} {
		t.Run(testName, func(t *testing.T) {
			created := &fakeCreator{}
			p := &defaultProfileCreator{name: "berth", profiles: c.cache, live: c.live, creator: created}
			if err := p.createIfNone(t.Context()); err != nil || len(created.names) != c.want {
				t.Errorf("created %q, %v; want %d", created.names, err, c.want)
			}
		})
	}
}

func TestDefaultSchedulerIsNotServedBesideAnotherScheduler(t *testing.T) {
	name := types.NamespacedName{Namespace: "kube-system", Name: "kube-scheduler"}
	// Its times are those of another machine's clock: a year before this one's.
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, UID: "a", ResourceVersion: "1"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("master-1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(startTime.AddDate(-1, 0, 0))),
		},
	}
	renewed := func(version string) fakeReader {
		next := lease.DeepCopy()
		next.ResourceVersion = version
		return fakeReader{next}
	}
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
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) { d.live = renewed("2"); d.clock.Step(time.Hour) }, says: "master-1",
		},
		"the Lease is not renewed for almost its duration": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) { d.clock.Step(14 * time.Second) }, says: "master-1",
		},
		"the Lease is not renewed for its duration": {
			profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: fakeReader{lease}, passes: expires,
		},
		"a Lease that was created again has another UID": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) {
				another := lease.DeepCopy()
				another.UID = "b"
				d.live = fakeReader{another}
				d.clock.Step(time.Minute)
			}, says: "master-1",
		},
		"the administrator says that no other scheduler serves the name": {profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, None: true}},
		"the profile takes the name over": {
			profile: newProfile(1, def, takeOver), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: fakeReader{lease},
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
