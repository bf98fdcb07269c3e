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
	"github.com/berthdev/berth/test/fixture"
)

// looking is debugging of a house with nothing in it, in a cluster with objects.
func newTestDebugHandler(objects ...runtime.Object) (*debugHandler, *fake.Clientset) {
	client, rooms := fake.NewClientset(objects...), cache.New()
	return &debugHandler{client: client, log: logr.Discard(), components: debug.Debugger{
		Queue: queue.New(queue.Options{Clock: clock.RealClock{}}), Cache: rooms, WaitingPods: framework.NewWaitingPods(clock.RealClock{}),
		Profiles: profile.NewSet(profile.Options{Clock: clock.RealClock{}}), Now: time.Now,
		BetweenCycles: func(_ context.Context, look func()) error { rooms.UpdateSnapshot(); look(); return nil },
	}}, client
}

func TestDebugHandlerViewsAndFormats(t *testing.T) {
	for sentence, c := range map[string]struct{ method, path, want string }{
		"what there is":                   {"GET", "/debug/berth/", "200 /debug/berth/{cache,compare,generations,memo,order,queue}?format={text,json}"},
		"a view that is not there":        {"GET", "/debug/berth/secrets", "404 /debug/berth/{cache,"},
		"a format that is none":           {"GET", "/debug/berth/queue?format=yaml", `400 format: must be text or json, is "yaml"`},
		"looking is all that can be done": {"POST", "/debug/berth/queue", "405 method: must be GET, is POST"},
		"text":                            {"GET", "/debug/berth/queue", "200 0 pods in the queue at "},
		"JSON":                            {"GET", "/debug/berth/queue?format=json", "200 {\n  \"time\": "},
		"memo":                            {"GET", "/debug/berth/memo", "200 equivalence caches at "},
		"generations":                     {"GET", "/debug/berth/generations", "200 0 profiles"},
		"the order of the nodes":          {"GET", "/debug/berth/order", "200 0 nodes at "},
		"cache":                           {"GET", "/debug/berth/cache", "200 0 nodes and 0 pods"},
	} {
		t.Run(sentence, func(t *testing.T) {
			d, _ := newTestDebugHandler()
			answer := httptest.NewRecorder()
			d.ServeHTTP(answer, httptest.NewRequest(c.method, c.path, nil))
			if got := fmt.Sprintf("%d %s", answer.Code, answer.Body); !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTheComparisonReadsTheAPIServer(t *testing.T) {
	d, client := newTestDebugHandler(fixture.Node("n1").Obj(), fixture.Pod("shop/web").On("n1").Obj())
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/berth/compare?format=json", nil))
	var c debug.Comparison
	if err := json.Unmarshal(answer.Body.Bytes(), &c); err != nil {
		t.Fatalf("%d %s: %v", answer.Code, answer.Body, err)
	}
	if c.Nodes != 1 || c.Pods != 1 || len(c.Differences) != 2 || c.Differences[0].Type != debug.Missing || c.Differences[1].Type != debug.Missing {
		t.Errorf("found %+v", c)
	}

	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1.PodList{}, errors.New("the API server is away")
	})
	answer = httptest.NewRecorder()
	d.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/berth/compare", nil))
	if got := fmt.Sprintf("%d %s", answer.Code, answer.Body); got != "503 reading pods: the API server is away\n" {
		t.Errorf("%q", got)
	}

	d.comparing.Lock()
	answer = httptest.NewRecorder()
	d.ServeHTTP(answer, httptest.NewRequest("GET", "/debug/berth/compare", nil))
	if answer.Code != 429 {
		t.Errorf("two at once: %d %s", answer.Code, answer.Body)
	}
}
