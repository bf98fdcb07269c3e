package controllers

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
