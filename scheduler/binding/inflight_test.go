package binding

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// slowServer answers when the test says so, and counts the requests that wait.
type slowServer struct {
	answer chan struct{}
	inside atomic.Int32
}

func (s *slowServer) RoundTrip(*http.Request) (*http.Response, error) {
	s.inside.Add(1)
	<-s.answer
	s.inside.Add(-1)
	return &http.Response{}, nil
}

func request(t *testing.T, ctx context.Context) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://api", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRequestsInFlightAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowServer{answer: make(chan struct{})}
		client := inFlightLimiter{api, make(chan struct{}, 2)}
		for range 5 {
			go func() { _, _ = client.RoundTrip(request(t, t.Context())) }()
		}
		for _, want := range []int32{2, 2, 2, 2, 1, 0} {
			synctest.Wait()
			if n := api.inside.Load(); n != want {
				t.Errorf("%d requests are in flight, want %d", n, want)
			}
			if want > 0 {
				api.answer <- struct{}{}
			}
		}
	})
}

func TestACanceledRequestStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slowServer{answer: make(chan struct{})}
		client := inFlightLimiter{api, make(chan struct{}, 1)}
		go func() { _, _ = client.RoundTrip(request(t, t.Context())) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.RoundTrip(request(t, ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		api.answer <- struct{}{}
	})
}

func TestAPodWaitsForASlotBeforeItsRequestExists(t *testing.T) {
	for sentence, c := range map[string]struct {
		end   func(env *testEnv)
		bound bool
	}{
		"and is bound once one is free":   {func(env *testEnv) { env.slots <- struct{}{} }, true},
		"and gives up when the loop ends": {func(env *testEnv) { env.cancel() }, false},
	} {
		t.Run(sentence, func(t *testing.T) {
			runInVirtualTime(t, func(env *testEnv) {
				env.ctx, env.cancel = context.WithCancel(env.ctx)
				defer env.cancel()
				for range MaxInFlight {
					<-env.slots
				}
				env.inTree = true
				ended := make(chan error, 1)
				go func() {
					_, err := env.bindPod()
					ended <- err
				}()
				synctest.Wait()
				if calls := env.calls(); len(calls) > 0 || !env.assumed() {
					t.Errorf("without a slot: requests %v, assumed: %t", calls, env.assumed())
				}
				c.end(env)
				err := <-ended
				if bound := env.cluster.Pod(env.pod).Spec.NodeName != ""; bound != c.bound || bound != (err == nil) {
					t.Errorf("bound: %t, error: %v, want bound: %t", bound, err, c.bound)
				}
				if free := len(env.slots); c.bound && free != 1 {
					t.Errorf("%d slots are free after the Binding, want the one that it had", free)
				}
			})
		})
	}
}
