package operator

import (
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// rewatchPause is how long, up to a fifth more, an API server that could not be reached
	// is left alone by a watch.
	watchRetryInterval = time.Second
	// rewatchLimit is for how long one request tries again. Its token may be older than the
	// API server takes then: a request that follows carries a new one.
	watchRetryTimeout = 5 * time.Minute
)

// rewatch has watches wait for an API server that cannot be reached, instead of failing.
// client-go's reflectors leave one that failed a few times alone for up to a minute, and
// for as long nothing would be scheduled when it is there again.
func retryWatches(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchRetrier{next} })
}

type watchRetrier struct{ next http.RoundTripper }

// RoundTrip sends a watch until there is an answer, of whatever status, or the request is
// given up; other requests once.
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
