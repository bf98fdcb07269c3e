package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/debug"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/fixture"
)

// newTestDebugHandler returns a handler of empty components, with a client of a cluster
// that has the objects.
func newTestDebugHandler(objects ...runtime.Object) (*debugHandler, *fake.Clientset) {
	client, nodes := fake.NewClientset(objects...), cache.New()
	return &debugHandler{client: client, log: logr.Discard(), components: debug.Debugger{
		Queue: queue.New(queue.Options{Clock: clock.RealClock{}}), Cache: nodes, WaitingPods: framework.NewWaitingPods(clock.RealClock{}),
		Profiles: profile.NewSet(profile.Options{Clock: clock.RealClock{}}), Now: time.Now,
		BetweenCycles: func(_ context.Context, f func()) error { nodes.UpdateSnapshot(); f(); return nil },
	}}, client
}

func TestDebugHandlerViewsAndFormats(t *testing.T) {
	for name, c := range map[string]struct{ method, path, want string }{
		"the list of views":            {"GET", "/debug/berth/", "200 /debug/berth/{cache,compare,equivalence-cache,generations,order,queue}?format={text,json}"},
		"a view that does not exist":   {"GET", "/debug/berth/secrets", "404 /debug/berth/{cache,"},
		"a format that does not exist": {"GET", "/debug/berth/queue?format=yaml", `400 format: must be text or json, is "yaml"`},
		"another method than GET":      {"POST", "/debug/berth/queue", "405 method: must be GET, is POST"},
		"text":                         {"GET", "/debug/berth/queue", "200 0 pods in the queue at "},
		"JSON":                         {"GET", "/debug/berth/queue?format=json", "200 {\n  \"time\": "},
		"equivalence-cache":            {"GET", "/debug/berth/equivalence-cache", "200 equivalence caches at "},
		"generations":                  {"GET", "/debug/berth/generations", "200 0 profiles"},
		"the order of the nodes":       {"GET", "/debug/berth/order", "200 0 nodes at "},
		"cache":                        {"GET", "/debug/berth/cache", "200 0 nodes and 0 pods"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newTestDebugHandler()
			response := httptest.NewRecorder()
			d.ServeHTTP(response, httptest.NewRequest(c.method, c.path, nil))
			if got := fmt.Sprintf("%d %s", response.Code, response.Body); !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTheComparisonReadsTheAPIServer(t *testing.T) {
	d, client := newTestDebugHandler(fixture.Node("n1").Obj(), fixture.Pod("shop/web").On("n1").Obj())
	response := httptest.NewRecorder()
	d.ServeHTTP(response, httptest.NewRequest("GET", "/debug/berth/compare?format=json", nil))
	var c debug.Comparison
	if err := json.Unmarshal(response.Body.Bytes(), &c); err != nil {
		t.Fatalf("%d %s: %v", response.Code, response.Body, err)
	}
	if c.Nodes != 1 || c.Pods != 1 || len(c.Differences) != 2 || c.Differences[0].Type != debug.Missing || c.Differences[1].Type != debug.Missing {
		t.Errorf("found %+v", c)
	}

	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1.PodList{}, errors.New("the API server is away")
	})
	response = httptest.NewRecorder()
	d.ServeHTTP(response, httptest.NewRequest("GET", "/debug/berth/compare", nil))
	if got := fmt.Sprintf("%d %s", response.Code, response.Body); got != "503 reading pods: the API server is away\n" {
		t.Errorf("%q", got)
	}

	d.comparing.Lock()
	response = httptest.NewRecorder()
	d.ServeHTTP(response, httptest.NewRequest("GET", "/debug/berth/compare", nil))
	if response.Code != 429 {
		t.Errorf("a second comparison: %d %s", response.Code, response.Body)
	}
}
