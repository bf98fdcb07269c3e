package operator

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	restclient "k8s.io/client-go/rest"
)

// awayUntil is an API server that cannot be reached before a moment.
type unreachableUntil struct {
	moment   time.Time
	requests int
}

var errRefused = errors.New("connection refused")

func (a *unreachableUntil) RoundTrip(*http.Request) (*http.Response, error) {
	a.requests++
	if time.Now().Before(a.moment) {
		return nil, errRefused
	}
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
}

func TestWatchesWaitForAnUnreachableAPIServer(t *testing.T) {
	for name, tc := range map[string]struct {
		query    string
		away     time.Duration
		givenUp  time.Duration // 0: never
		answered bool
		within   time.Duration
	}{
		"a watch is answered within two seconds of its coming back": {"watch=true&resourceVersion=7", 40 * time.Second, 0, true, 42 * time.Second},
		"a watch is given up with its reflector":                    {"watch=true", time.Hour, 3 * time.Second, false, 3 * time.Second},
		"a watch fails before its token can be much too old":        {"watch=true", time.Hour, 0, false, watchRetryTimeout},
		"a list fails at once":                                      {"limit=500", time.Minute, 0, false, 0},
		"what was answered is not asked again":                      {"watch=true", 0, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, began := &unreachableUntil{moment: time.Now().Add(tc.away)}, time.Now()
				config := &restclient.Config{}
				retryWatches(config)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.givenUp > 0 {
					time.AfterFunc(tc.givenUp, cancel)
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
