package operator

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// watchRetryInterval is the time, plus up to a fifth, between two attempts to reach
	// the API server for a watch.
	watchRetryInterval = time.Second
	// watchRetryTimeout is how long one watch request is retried. Its bearer token may
	// have expired by then; the reflector's next request has a new one.
	watchRetryTimeout = 5 * time.Minute
)

// retryWatches makes watches wait for an API server that cannot be reached, instead of
// failing. After a few failures client-go's reflectors back off for up to a minute, in
// which nothing would be scheduled although the API server is back.
func retryWatches(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchRetrier{next} })
}

type watchRetrier struct{ next http.RoundTripper }

// RoundTrip sends a watch until there is a response of any status, or the request's
// context or watchRetryTimeout ends; other requests once.
func (r watchRetrier) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if err == nil || request.Method != http.MethodGet || request.URL.Query().Get("watch") != "true" || fault.WatchesGiveUp {
		return response, err
	}
	ctx := request.Context()
	limit := time.After(watchRetryTimeout)
	for err != nil {
		select {
		case <-time.After(wait.Jitter(watchRetryInterval, 0.2)):
			response, err = r.next.RoundTrip(request)
		case <-limit:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
	return response, nil
}
