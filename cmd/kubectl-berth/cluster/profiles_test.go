package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berthdev/berth/api/v1alpha1"
)

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
	err := c.WatchProfiles(ctx, []string{"batch", "web"}, func([]v1alpha1.SchedulingProfile) error { return nil }, func(p *v1alpha1.SchedulingProfile, gone bool) error {
		if events = append(events, event{p.Name, gone}); len(events) == 2 {
			cancel()
		}
		return nil
	})
	if diff := cmp.Diff([]event{{"batch", true}, {"web", false}}, events); diff != "" || err != nil {
		t.Errorf("%v, and other events (-want +got):\n%s", err, diff)
	}
}
