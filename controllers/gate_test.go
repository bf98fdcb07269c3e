package controllers

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

func programmed(generation int64, status metav1.ConditionStatus) func(*v1alpha1.SchedulingProfile) {
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
		"it would run what runs":                       {profile: aProfile(3, programmed(3, "True"))},
		"it would refuse what runs":                    {profile: aProfile(3, programmed(3, "True")), refused: true, shut: true},
		"what it refuses was refused before":           {profile: aProfile(3, programmed(3, "False")), refused: true},
		"what it refuses came after what runs":         {profile: aProfile(3, programmed(2, "True")), refused: true},
		"what it refuses was never looked at":          {profile: aProfile(1), refused: true},
		"nobody looked at a profile that it would run": {profile: aProfile(1)},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, c.profile)
			d.options.Version = "2.0"
			if c.refused {
				d.reject = rejected(noSuchPlugin)
			}
			gate := &Gate{}
			if gate.Ready() == nil {
				t.Error("ready before it looked")
			}
			k := &gatekeeper{gate: gate, reconciler: d.profileReconciler, recorder: d.events, clock: d.clock}
			for range 2 {
				if shut, err := k.look(t.Context()); err != nil || shut != c.shut {
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
			for _, want := range []string{"version 2.0", "SchedulingProfile batch", noSuchPlugin.Path} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("it says %v, which does not name %q", err, want)
				}
			}
			if len(d.events.events) != 1 || d.events.events[0] != "Warning ReplicaNotReady Start" {
				t.Errorf("events %q, want one", d.events.events)
			}
			d.reject = nil // the user mends it
			if shut, _ := k.look(t.Context()); shut || gate.Ready() != nil {
				t.Error("not ready after what stood in the way is gone")
			}
		})
	}
}

// made counts what is created.
type made struct {
	client.Writer
	names []string
}

func (m *made) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	m.names = append(m.names, object.GetName())
	return nil
}

func TestTheDefaultProfileIsCreatedOnlyWhereThereIsNone(t *testing.T) {
	for sentence, c := range map[string]struct {
		cache, live objects
		want        int
	}{
		"there is none": {want: 1},
		"there is one":  {cache: objects{aProfile(1)}, live: objects{aProfile(1)}},
		"there is one that the cache has not seen": {live: objects{aProfile(1)}},
	} {
		t.Run(sentence, func(t *testing.T) {
			created := &made{}
			p := &provider{name: "berth", profiles: c.cache, live: c.live, creator: created}
			if err := p.look(t.Context()); err != nil || len(created.names) != c.want {
				t.Errorf("created %q, %v; want %d", created.names, err, c.want)
			}
		})
	}
}

func TestDefaultSchedulerIsLeftToWhoServesIt(t *testing.T) {
	lease := func(renewed time.Time) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("master-1"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
			},
		}
	}
	takeOver := func(p *v1alpha1.SchedulingProfile) {
		p.Annotations = map[string]string{v1alpha1.AnnotationTakeOver: "true"}
	}
	def := func(p *v1alpha1.SchedulingProfile) { p.Name = "default-scheduler" }
	for sentence, c := range map[string]struct {
		profile *v1alpha1.SchedulingProfile
		lease   *coordinationv1.Lease
		runs    bool
	}{
		"the Lease is renewed":                     {profile: aProfile(1, def), lease: lease(noon.Add(-14 * time.Second))},
		"the Lease has run out":                    {profile: aProfile(1, def), lease: lease(noon.Add(-15 * time.Second)), runs: true},
		"there is no Lease":                        {profile: aProfile(1, def), runs: true},
		"the profile takes over":                   {profile: aProfile(1, def, takeOver), lease: lease(noon), runs: true},
		"another name is none of kube-scheduler's": {profile: aProfile(1), lease: lease(noon), runs: true},
	} {
		t.Run(sentence, func(t *testing.T) {
			d := newDesk(t, c.profile)
			if c.lease != nil {
				d.live = objects{c.lease}
			}
			d.mustVisitNamed(c.profile.Name)
			if _, runs := d.applier.Running(c.profile.Name); runs != c.runs {
				t.Errorf("runs: %t, want %t", runs, c.runs)
			}
			conditions := strings.Join(d.statuses.last(t).conditions(), ", ")
			if refused := strings.Contains(conditions, "Accepted False NameServedElsewhere"); refused == c.runs {
				t.Errorf("conditions %s", conditions)
			}
		})
	}
}
