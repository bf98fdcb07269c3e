package binding

import (
	"net/http"

	restclient "k8s.io/client-go/rest"
)

// InFlight is how many writes of pods may be under way. Pods are bound beside
// the loop, which is faster than any API server: without a bound, a backlog of
// pods would become as many requests at once, for which the transport opens a
// connection a hundred and the server's fairness turns the rest away.
const MaxInFlight = 64

// Bound lets no more requests of config be under way than slots has room for.
func LimitInFlight(config *restclient.Config, slots chan struct{}) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return inFlightLimiter{next, slots} })
}

// bounded lets so many requests through at a time as slots has room for.
type inFlightLimiter struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip waits for a slot, or until the request is given up.
func (b inFlightLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
		return b.next.RoundTrip(request)
	case <-request.Context().Done():
		if request.Body != nil {
			_ = request.Body.Close() // nothing was read from it
		}
		return nil, request.Context().Err()
	}
}
