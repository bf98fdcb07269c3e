package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
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
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
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

// storedRevision is a revision on probation that the process "crashed" ran.
const storedRevision = `{"kind": "ControllerRevisionList", "apiVersion": "apps/v1", "items": [{
	"metadata": {"namespace": "berth-system", "name": "batch-9f3c", "labels": {"berth.dev/profile": "batch"}, "annotations": {
		"berth.dev/on-probation": "2026-03-01T12:00:00Z", "berth.dev/process": "crashed"
	}},
	"data": {"apiVersion": "berth.dev/v1alpha1", "kind": "SchedulingProfile", "metadata": {"name": "batch"}}, "revision": 1
}]}`

// newWriteRecorder returns an API server that has one revision and records what is written.
func newWriteRecorder(t *testing.T) (config *restclient.Config, received *[]string) {
	received = new([]string)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			*received = append(*received, r.Method+" "+r.URL.Path)
		case strings.HasSuffix(r.URL.Path, "/controllerrevisions"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, storedRevision)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(api.Close)
	return &restclient.Config{Host: api.URL}, received
}

// Any process may write Events, that a process of its container crashed, and that it ends
// itself; all else may undo what the next leader does.
func TestAProcessThatDoesNotLeadWritesEventsOnly(t *testing.T) {
	config, received := newWriteRecorder(t)
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
	ofControllers, err := newControllerClient(config, client.Options{Scheme: scheme, Mapper: mapper}, term)
	if err != nil {
		t.Fatal(err)
	}
	ctx, deletion := t.Context(), metav1.DeleteOptions{}
	revisions := c.newHistory("berth-system", "crashed", 0)
	exported := c.newExporter("berth-system", nil).Sync(ctx, "batch", "for-autoscaler", &compile.Blueprint{Name: "batch"}, func(context.Context) error { return nil })
	for name, err := range map[string]error{
		"pods":        c.writes.CoreV1().Pods("shop").Delete(ctx, "web", deletion),
		"volumes":     c.volumes.CoreV1().PersistentVolumes().Delete(ctx, "v1", deletion),
		"the journal": c.journal.CoreV1().ConfigMaps("shop").Delete(ctx, "journal", deletion),
		"decisions":   c.decisions.Delete().Namespace("shop").Resource("schedulingdecisions").Name("web").Do(ctx).Error(),
		"a profile":   ofControllers.Create(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "berth"}}),
		"statuses":    ofControllers.Status().Apply(ctx, berthac.SchedulingProfile("batch"), client.FieldOwner("berth")),
		"revisions":   revisions.PruneDeleted(ctx, func(string) bool { return false }),
	} {
		if !errors.Is(err, leadership.ErrNotLeading) {
			t.Errorf("%s: %v, want that the write is not sent", name, err)
		}
	}
	if !strings.Contains(exported.Message, leadership.ErrNotLeading.Error()) {
		t.Errorf("exports: %s, want that the write is not sent", exported.Message)
	}
	crash := history.Crash{Process: "crashed", Time: time.Now(), Plugins: []string{"Own"}}
	_, recorded := revisions.RecordCrash(ctx, crash, func(*v1alpha1.SchedulingProfile) []string { return crash.Plugins })
	for name, err := range map[string]error{
		"Events": c.events.EventsV1().Events("shop").Delete(ctx, "web", deletion), "crashes": recorded, "its end": revisions.Close(ctx),
	} {
		if errors.Is(err, leadership.ErrNotLeading) {
			t.Errorf("%s: %v", name, err)
		}
	}
	slices.Sort(*received)
	const revision = "PUT /apis/apps/v1/namespaces/berth-system/controllerrevisions/batch-9f3c"
	if want := []string{"DELETE /apis/events.k8s.io/v1/namespaces/shop/events/web", revision, revision}; !slices.Equal(*received, want) {
		t.Errorf("the API server got %q, want %q", *received, want)
	}
}

// pieces is a body that arrives in pieces: each read returns at most one.
type pieces struct {
	left  []string
	reads int
}

func (p *pieces) Read(buffer []byte) (int, error) {
	p.reads++
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(buffer, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { p.left = nil; return nil }

func (p *pieces) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: p}, nil
}

func TestWatchesAreReadInLargePieces(t *testing.T) {
	large := strings.Repeat("x", 1000)
	for name, tc := range map[string]struct {
		query  string
		pieces []string
		// first is how much a first large read returns; reads is how often the body is read then,
		// and all how often it is read until its end in small reads.
		first, reads, all int
	}{
		"a watch":                         {"watch=true", []string{large}, 1000, 1, 2},
		"a watch, of which more may come": {"watch=true", []string{"event", large}, 5, 1, 3},
		"a list":                          {"limit=500", []string{large}, 1000, 1, 1001},
	} {
		t.Run(name, func(t *testing.T) {
			open := func() (*pieces, io.ReadCloser) {
				body := &pieces{left: slices.Clone(tc.pieces)}
				request := httptest.NewRequest(http.MethodGet, "https://berth.invalid/api/v1/pods?"+tc.query, nil)
				response, err := watchBuffer{body}.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				return body, response.Body
			}
			body, read := open()
			if n, err := read.Read(make([]byte, 2000)); n != tc.first || err != nil || body.reads != tc.reads {
				t.Errorf("a large read: %d bytes, error %v, in %d reads of the body; want %d in %d", n, err, body.reads, tc.first, tc.reads)
			}
			if err := read.Close(); err != nil || body.left != nil {
				t.Errorf("the body is not closed, error %v", err)
			}
			body, read = open()
			content, err := io.ReadAll(iotest.OneByteReader(read))
			if err != nil || string(content) != strings.Join(tc.pieces, "") || body.reads != tc.all {
				t.Errorf("small reads: %d bytes, error %v, in %d reads of the body, want %d", len(content), err, body.reads, tc.all)
			}
		})
	}
}
