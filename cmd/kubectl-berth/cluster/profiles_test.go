package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berthdev/berth/api/v1alpha1"
)

// failingAPI is an API server whose requests after the first list fail with errors, of which nil is
// a request that succeeds. The watches end at once, and the last one has a change.
type failingAPI struct {
	watches, lists []error
}

// take takes the first of the errors; nil if there is none.
func take(errs *[]error) (err error) {
	if len(*errs) > 0 {
		err, *errs = (*errs)[0], (*errs)[1:]
	}
	return err
}

func (a *failingAPI) client(profile *v1alpha1.SchedulingProfile) client.WithWatch {
	a.lists = append([]error{nil}, a.lists...)
	return fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(profile).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := take(&a.lists); err != nil {
				return err
			}
			err := c.List(ctx, list, options...)
			list.SetResourceVersion("1") // the fake client sets none
			return err
		},
		Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			if err := take(&a.watches); err != nil {
				return nil, err
			}
			w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 1})
			if len(a.watches) == 0 {
				w.Modify(profile)
			}
			w.Stop()
			return w, nil
		},
	}).Build()
}

func TestAWatchGoesOnWhenTheAPIServerRestarts(t *testing.T) {
	of := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "schedulingprofiles"}
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	unavailable := apierrors.NewServiceUnavailable("starting")
	noKind := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: of.Group, Kind: "SchedulingProfile"}}
	for name, c := range map[string]struct {
		api failingAPI
		// ends is a part of the error; empty for a watch that goes on.
		ends  string
		notes int
	}{
		"connections are refused":                  {api: failingAPI{watches: []error{nil, refused, refused, nil}}, notes: 1},
		"it is overloaded, and then starts":        {api: failingAPI{watches: []error{nil, apierrors.NewTooManyRequestsError("later"), unavailable, nil}}, notes: 1},
		"twice":                                    {api: failingAPI{watches: []error{nil, refused, nil, refused, nil}}, notes: 2},
		"the profiles have to be listed meanwhile": {api: failingAPI{watches: []error{nil, refused, apierrors.NewResourceExpired("old"), nil}, lists: []error{unavailable, refused}}, notes: 1},
		"it was never watched":                     {api: failingAPI{watches: []error{refused}}, ends: "cannot reach the API server"},
		"the permission is gone":                   {api: failingAPI{watches: []error{nil, refused, apierrors.NewForbidden(of, "", errors.New("no"))}}, ends: "kubectl berth check", notes: 1},
		"the kind is gone":                         {api: failingAPI{watches: []error{nil, noKind}}, ends: "not installed"},
		"the path is gone":                         {api: failingAPI{watches: []error{nil, apierrors.NewNotFound(of, "")}}, ends: "not installed"},
		"the permission to list is gone":           {api: failingAPI{watches: []error{nil, apierrors.NewGone("old")}, lists: []error{apierrors.NewForbidden(of, "", errors.New("no"))}}, ends: "kubectl berth check"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cluster, changed := &Cluster{Client: c.api.client(&v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "batch"}})}, false
				var notes bytes.Buffer
				err := cluster.WatchProfiles(ctx, nil, &notes, func([]v1alpha1.SchedulingProfile) error { return nil }, func(*v1alpha1.SchedulingProfile, bool) error {
					if changed = len(c.api.watches) == 0; changed {
						cancel()
					}
					return nil
				})
				switch {
				case c.ends == "" && (err != nil || !changed):
					t.Errorf("it ended with %v, and a change was seen: %t", err, changed)
				case c.ends != "" && (err == nil || !strings.Contains(err.Error(), c.ends)):
					t.Errorf("it ended with %v, want %q", err, c.ends)
				}
				if got := strings.Count(notes.String(), "The watch is interrupted, and is tried again: "); got != c.notes {
					t.Errorf("%d notes, want %d:\n%s", got, c.notes, notes.String())
				}
			})
		})
	}
}

func TestAProfileThatIsDeletedBetweenTwoWatchesIsGone(t *testing.T) {
	named := func(name string) *v1alpha1.SchedulingProfile {
		return &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	watches := 0
	c := &Cluster{Client: fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(named("batch"), named("web"), named("other")).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, _ client.ObjectList, _ ...client.ListOption) (watch.Interface, error) {
			if watches++; watches > 1 {
				return watch.NewFake(), nil
			}
			for _, name := range []string{"batch", "other"} {
				if err := c.Delete(ctx, named(name)); err != nil {
					return nil, err
				}
			}
			return nil, apierrors.NewResourceExpired("too old")
		},
	}).Build()}
	type event struct {
		Name string
		Gone bool
	}
	var events []event
	err := c.WatchProfiles(ctx, []string{"batch", "web"}, io.Discard, func([]v1alpha1.SchedulingProfile) error { return nil }, func(p *v1alpha1.SchedulingProfile, gone bool) error {
		if events = append(events, event{p.Name, gone}); len(events) == 2 {
			cancel()
		}
		return nil
	})
	if diff := cmp.Diff([]event{{"batch", true}, {"web", false}}, events); diff != "" || err != nil {
		t.Errorf("%v, and other events (-want +got):\n%s", err, diff)
	}
}
