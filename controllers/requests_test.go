package controllers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/decision"
)

// lostRequests is a client whose requests get no answer.
type lostRequests struct{ client.Client }

func (lostRequests) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return awaitAnswer(ctx)
}

func (lostRequests) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	return awaitAnswer(ctx)
}

func (lostRequests) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	return awaitAnswer(ctx)
}

// lostStatuses is a client.StatusClient whose requests get no answer.
type lostStatuses struct{ client.SubResourceWriter }

func (s lostStatuses) Status() client.SubResourceWriter { return s }

func (lostStatuses) Apply(ctx context.Context, _ runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return awaitAnswer(ctx)
}

func awaitAnswer(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestARequestWithoutAnAnswerEnds(t *testing.T) {
	profile, lost := newProfile(1), lostRequests{}
	conflicting := &fakeStatusClient{reject: func(statusWrite) error {
		return apierrors.NewConflict(schema.GroupResource{}, "batch", errors.New("the object has been modified"))
	}}
	update := statusUpdate{name: profile.Name, uid: profile.UID}
	publish := func(statuses client.StatusClient) func(context.Context) error {
		return func(ctx context.Context) error {
			p := NewPublisher(Cluster{Live: lost, Status: statuses}, Options{Ledger: decision.NewLedger(time.Now), Clock: clock.RealClock{}}).(*publisher)
			return p.write(ctx, update)
		}
	}
	writeConditions := func(statuses client.StatusClient) func(context.Context) error {
		return func(ctx context.Context) error {
			v := observation{profile: profile}
			w := &statusWriter{client: statuses, live: lost, recorder: &fakeRecorder{}, clock: clock.RealClock{}}
			return w.write(ctx, statusObject{Object: profile}, v.conditions(), v.status)
		}
	}
	for name, send := range map[string]func(context.Context) error{
		"conditions are written":                 writeConditions(lostStatuses{}),
		"a profile is read after a conflict":     writeConditions(conflicting),
		"counts are written":                     publish(lostStatuses{}),
		"counts are read after a conflict":       publish(conflicting),
		"the counts of earlier leaders are read": func(ctx context.Context) error { return (&publisher{live: lost}).resumeCounts(ctx, nil) },
		"the default profile is looked for":      (&defaultProfileCreator{profiles: fakeReader{}, live: lost}).createIfNone,
		"the default profile is created":         (&defaultProfileCreator{profiles: fakeReader{}, live: fakeReader{}, creator: lost}).createIfNone,
		"the Lease of another scheduler is read": func(ctx context.Context) error {
			d := newTestEnv(t)
			d.profileReconciler.live, d.options.OtherSchedulers.Lease = lost, &otherLeaseName
			rejection, err := d.servedElsewhere(ctx, newProfile(1, withName(defaultSchedulerName)))
			if rejection == nil {
				t.Errorf("default-scheduler is served, although its Lease is not known; error %v", err)
			}
			return context.DeadlineExceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of virtual time
				defer cancel()
				if err := send(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					t.Errorf("the request ended with %v, and its caller with %v: want the request alone to end", err, ctx.Err())
				}
			})
		})
	}
}
