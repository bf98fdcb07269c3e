package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/berthdev/berth/test/support/fixture"
)

// eventServer is a fake API server for Events.
type eventServer struct {
	eventsclient.EventsV1Interface
	eventsclient.EventInterface

	mu       sync.Mutex
	requests []string
	stored   map[string]*eventsv1.Event
	// answers are the results of the next requests, refusal that of all in the namespace "refused".
	answers []error
	refusal error
	// lostAnswers is how many of the next Events are stored without an answer.
	lostAnswers int
	// gate, if not nil, blocks each request until it is closed; blocked counts those
	// requests.
	gate    chan struct{}
	blocked int
}

func (s *eventServer) Events(string) eventsclient.EventInterface { return s }

// set changes the server while it may get requests.
func (s *eventServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// enter records a request and returns its result.
func (s *eventServer) enter(request string) error {
	s.mu.Lock()
	s.requests = append(s.requests, request)
	s.blocked++
	var err error
	if len(s.answers) > 0 {
		err, s.answers = s.answers[0], s.answers[1:]
	}
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	s.mu.Lock()
	s.blocked--
	s.mu.Unlock()
	return err
}

func (s *eventServer) Create(_ context.Context, e *eventsv1.Event, _ metav1.CreateOptions) (*eventsv1.Event, error) {
	err := s.enter("create " + e.Regarding.Name + countOf(e.Series))
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Namespace == "refused" && s.refusal != nil {
		return nil, s.refusal
	}
	if err != nil {
		return nil, err
	}
	if s.stored[e.Name] != nil {
		return nil, apierrors.NewAlreadyExists(eventsv1.Resource("events"), e.Name)
	}
	s.stored[e.Name] = e
	if s.lostAnswers > 0 {
		s.lostAnswers--
		return nil, errors.New("connection reset")
	}
	return e, nil
}

func (s *eventServer) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*eventsv1.Event, error) {
	var patch eventsv1.Event
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	s.mu.Lock()
	e, ok := s.stored[name]
	s.mu.Unlock()
	if !ok {
		return nil, apierrors.NewNotFound(eventsv1.Resource("events"), name)
	}
	if err := s.enter("patch " + e.Regarding.Name + countOf(patch.Series)); err != nil {
		return nil, err
	}
	return e, nil
}

func countOf(s *eventsv1.EventSeries) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf(" x%d", s.Count)
}

// take waits for that many requests and returns those since the last call.
func (s *eventServer) take(t *testing.T, want int) []string {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests", want), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.requests) >= want
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := s.requests
	s.requests = nil
	return requests
}

// testEnv is a Recorder on a manual clock.
type testEnv struct {
	*Recorder
	server *eventServer
	clock  *clocktesting.FakeClock
	writes sync.WaitGroup
}

func newTestEnv(t *testing.T, change func(*Options)) *testEnv {
	e := &testEnv{
		server: &eventServer{stored: map[string]*eventsv1.Event{}},
		clock:  clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)),
	}
	options := Options{
		Client: e.server, Scheme: clientgoscheme.Scheme, Clock: e.clock, Host: "host",
		Go: func(work func()) { e.writes.Go(work) },
	}
	if change != nil {
		change(&options)
	}
	e.Recorder = New(options)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		e.Close(ctx)
		e.writes.Wait()
	})
	return e
}

// recordRefusal records an Event about an unschedulable pod.
func (e *testEnv) recordRefusal(pod string) {
	e.For("batch").Eventf(fixture.Pod(pod).Obj(), nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "insufficient cpu for %s", pod)
}

// waitForWriters waits until all writers have returned.
func (e *testEnv) waitForWriters() { e.writes.Wait() }

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}
