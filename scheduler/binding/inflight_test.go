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
