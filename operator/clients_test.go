package operator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/leadership"
)

// unreachableUntil is an API server that cannot be reached before a time.
type unreachableUntil struct {
	moment   time.Time
	requests int
}

var errRefused = errors.New("connection refused")

func (u *unreachableUntil) RoundTrip(*http.Request) (*http.Response, error) {
	u.requests++
	if time.Now().Before(u.moment) {
		return nil, errRefused
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

func TestWatchesWaitForAnUnreachableAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		query     string
		away      time.Duration
		cancelled time.Duration // 0 for never
		answered  bool
		within    time.Duration
	}{
		"a watch succeeds within two seconds of the API server's return": {"watch=true&resourceVersion=7", 40 * time.Second, 0, true, 42 * time.Second},
		"a watch ends with its context":                                  {"watch=true", time.Hour, 3 * time.Second, false, 3 * time.Second},
		"a watch fails after watchRetryTimeout":                          {"watch=true", time.Hour, 0, false, watchRetryTimeout},
		"a list fails at once":                                           {"limit=500", time.Minute, 0, false, 0},
		"a response with an error status is not retried":                 {"watch=true", 0, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, began := &unreachableUntil{moment: time.Now().Add(tc.away)}, time.Now()
				config := &restclient.Config{}
				retryWatches(config)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancelled > 0 {
					time.AfterFunc(tc.cancelled, cancel)
				}
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/api/v1/pods?"+tc.query, nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := config.WrapTransport(server).RoundTrip(request)
				if answered := err == nil; answered != tc.answered {
					t.Fatalf("answered: %v (%v), want %v", answered, err, tc.answered)
				}
				if !tc.answered && !errors.Is(err, errRefused) {
					t.Errorf("the error is %v, want that of the last request", err)
				}
				if tc.answered && response.StatusCode != http.StatusServiceUnavailable {
					t.Errorf("the status is %d, want the API server's", response.StatusCode)
				}
				if took := time.Since(began); took > tc.within {
					t.Errorf("it took %s, want %s at most", took, tc.within)
				}
				if most := 1 + int(tc.within/watchRetryInterval); server.requests > most {
					t.Errorf("%d requests were sent, want %d at most", server.requests, most)
				}
			})
		})
	}
}

// Any process may write Events; all else may undo what the next leader does.
func TestAProcessThatDoesNotLeadWritesEventsOnly(t *testing.T) {
	var received []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		received = append(received, r.Method+" "+r.URL.Path)
	}))
	defer api.Close()
	config := &restclient.Config{Host: api.URL}
	term := leadership.New(clock.RealClock{}, time.Minute, nil)
	c, err := newClients(config, config, false, term, nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("SchedulingProfile"), meta.RESTScopeRoot)
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	statuses, err := newStatusClient(config, client.Options{Scheme: scheme, Mapper: mapper}, term)
	if err != nil {
		t.Fatal(err)
	}
	ctx, options := t.Context(), metav1.DeleteOptions{}
	for name, err := range map[string]error{
		"pods":        c.writes.CoreV1().Pods("shop").Delete(ctx, "web", options),
		"volumes":     c.volumes.CoreV1().PersistentVolumes().Delete(ctx, "v1", options),
		"the journal": c.journal.CoreV1().ConfigMaps("shop").Delete(ctx, "journal", options),
		"decisions":   c.decisions.Delete().Namespace("shop").Resource("schedulingdecisions").Name("web").Do(ctx).Error(),
		"statuses":    statuses.Status().Apply(ctx, berthac.SchedulingProfile("batch"), client.FieldOwner("berth")),
	} {
		if !errors.Is(err, leadership.ErrNotLeading) {
			t.Errorf("%s: %v, want that the write is not sent", name, err)
		}
	}
	if err := c.events.EventsV1().Events("shop").Delete(ctx, "web", options); errors.Is(err, leadership.ErrNotLeading) {
		t.Errorf("Events: %v", err)
	}
	if want := []string{"DELETE /apis/events.k8s.io/v1/namespaces/shop/events/web"}; !slices.Equal(received, want) {
		t.Errorf("the API server got %q, want %q", received, want)
	}
}
