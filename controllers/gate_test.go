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
	for sentence, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		refused bool
		shut    bool
	}{
		"it would run what runs":                       {profile: newProfile(3, withProgrammed(3, "True"))},
		"it would refuse what runs":                    {profile: newProfile(3, withProgrammed(3, "True")), refused: true, shut: true},
		"what it refuses was refused before":           {profile: newProfile(3, withProgrammed(3, "False")), refused: true},
		"what it refuses came after what runs":         {profile: newProfile(3, withProgrammed(2, "True")), refused: true},
		"what it refuses was never looked at":          {profile: newProfile(1), refused: true},
		"nobody looked at a profile that it would run": {profile: newProfile(1)},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newTestEnv(t, c.profile)
			d.options.Version = "2.0"
			if c.refused {
				d.reject = rejectionOf(noSuchPlugin)
			}
			gate := &ReadinessCheck{}
			if gate.Ready() == nil {
				t.Error("ready before it looked")
			}
			k := &readinessChecker{check: gate, reconciler: d.profileReconciler, recorder: d.events, clock: d.clock}
			for range 2 {
				if shut, err := k.checkProfiles(t.Context()); err != nil || shut != c.shut {
					t.Fatalf("shut %t, %v; want %t", shut, err, c.shut)
				}
			}
			err := gate.Ready()
			if !c.shut {
				if err != nil {
					t.Errorf("not ready: %v", err)
				}
				return
			}
			const want = "version 2.0 of Berth would refuse what runs of 1 SchedulingProfiles; the log and Events on them say which, and why"
			if err == nil || err.Error() != want {
				t.Errorf("it says %v, want %s", err, want)
			}
			if len(d.events.events) != 1 || d.events.events[0] != "Warning ReplicaNotReady Start" {
				t.Errorf("events %q, want one", d.events.events)
			}
			for _, want := range []string{"version 2.0", "batch", noSuchPlugin.Path} {
				if len(d.events.notes) != 1 || !strings.Contains(d.events.notes[0], want) {
					t.Errorf("the Event says %q, which does not name %q", d.events.notes, want)
				}
			}
			d.reject = nil // the user mends it
			if shut, _ := k.checkProfiles(t.Context()); shut || gate.Ready() != nil {
				t.Error("not ready after what stood in the way is gone")
			}
		})
	}
}

// made counts what is created.
type fakeCreator struct {
	client.Writer
	names []string
}

func (m *fakeCreator) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	m.names = append(m.names, object.GetName())
	return nil
}

func TestTheDefaultProfileIsCreatedOnlyWhereThereIsNone(t *testing.T) {
	for sentence, c := range map[string]struct {
		cache, live fakeReader
		want        int
	}{
		"there is none": {want: 1},
		"there is one":  {cache: fakeReader{newProfile(1)}, live: fakeReader{newProfile(1)}},
		"there is one that the cache has not seen": {live: fakeReader{newProfile(1)}},
	} {
		t.Run(sentence, func(t *testing.T) {
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
	// The times in it are those of another machine's clock: a year before this one's.
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
	lapses := func(d *testEnv) { d.clock.Step(15 * time.Second) }
	for sentence, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		others  OtherSchedulers
		before  fakeReader
		passes  func(d *testEnv) // between two visits
		says    string           // empty: it runs
	}{
		"no Lease is named": {profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault}, passes: lapses, says: "--other-scheduler-lease"},
		"the Lease that is named is not there": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, passes: lapses, says: "not found",
		},
		"it is renewed while this process looks on": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) { d.live = renewed("2"); d.clock.Step(time.Hour) }, says: "master-1",
		},
		"it was not renewed for almost as long as it lasts": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) { d.clock.Step(14 * time.Second) }, says: "master-1",
		},
		"it was not renewed for as long as it lasts": {
			profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: fakeReader{lease}, passes: lapses,
		},
		"another one of its name is not the same": {
			profile: newProfile(1, def), others: OtherSchedulers{Lease: &name}, before: fakeReader{lease},
			passes: func(d *testEnv) {
				another := lease.DeepCopy()
				another.UID = "b"
				d.live = fakeReader{another}
				d.clock.Step(time.Minute)
			}, says: "master-1",
		},
		"nobody serves the name, says the administrator": {profile: newProfile(1, def), others: OtherSchedulers{Names: byDefault, None: true}},
		"the profile takes over": {
			profile: newProfile(1, def, takeOver), others: OtherSchedulers{Names: byDefault, Lease: &name}, before: fakeReader{lease},
		},
		"it takes over a name that was left to another": {
			profile: newProfile(1, def, takeOver), others: OtherSchedulers{Names: byDefault, Explicit: true}, says: "--other-schedulers",
		},
		"another name was left to another": {
			profile: newProfile(1), others: OtherSchedulers{Names: []string{"batch"}, Explicit: true}, says: "--other-schedulers",
		},
		"another name is none of kube-scheduler's": {profile: newProfile(1), others: OtherSchedulers{Names: byDefault}},
	} {
		t.Run(sentence, func(t *testing.T) {
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
