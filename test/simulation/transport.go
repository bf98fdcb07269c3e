package simulation

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/scheduler/leadership"
)

// In a history of replicas each request of a pod and of the journal passes the transport that
// ships, which refuses writes of a process that may not lead, and client-go's rule of when a
// request is sent again.

// exchange is one call of the API server: a request, or several where client-go repeats it.
type exchange struct {
	verb, what string
	commit     func() (*v1.Pod, error)
	// last is the request that was sent last.
	last *request
}

// methods are the HTTP methods by verb; GET for all others.
var methods = map[string]string{"bind": http.MethodPost, "patch": http.MethodPatch, "delete": http.MethodDelete, "journal": http.MethodPut, writeStatus: http.MethodPatch}

type exchangeKey struct{}

// maxRetries and retryAfter are how often and when client-go sends a request again whose response
// has the status 429 or 5xx and the header Retry-After.
// Source: k8s.io/client-go/rest, with_retry.go.
const (
	maxRetries       = 10
	retryAfter       = time.Second
	retryAfterHeader = "Retry-After"
)

// callThroughTransport sends the request until its response is final.
func (sim *simulation) callThroughTransport(ctx context.Context, x exchange) (*v1.Pod, error) {
	method := http.MethodGet
	if m, is := methods[x.verb]; is {
		method = m
	}
	for retries := 0; ; retries++ {
		sent, err := http.NewRequestWithContext(context.WithValue(ctx, exchangeKey{}, &x), method, "https://apiserver", http.NoBody)
		sim.requireNoError(err)
		response, err := sim.election.transport.RoundTrip(sent)
		switch {
		case errors.Is(err, leadership.ErrNotLeading):
			sim.noteRefusedWrite(x, err)
			return nil, &url.Error{Op: method, URL: x.what, Err: err}
		case err != nil:
			return nil, err
		}
		_ = response.Body.Close()
		if retries == maxRetries || response.Header.Get(retryAfterHeader) == "" {
			return x.last.pod, x.last.err
		}
		sim.count(x.verb + " is sent again")
		sim.clock.Sleep(retryAfter)
	}
}

// wire is the transport below all others.
type wire struct{ sim *simulation }

// RoundTrip sends a request and waits for its response.
func (w wire) RoundTrip(sent *http.Request) (*http.Response, error) {
	ctx := sent.Context()
	x := ctx.Value(exchangeKey{}).(*exchange)
	x.last = w.sim.send(x.verb, x.what, x.commit)
	w.sim.await(ctx, x.last)
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: sent}
	if status := apierrors.APIStatus(nil); errors.As(x.last.err, &status) {
		response.StatusCode = int(status.Status().Code)
	} else if x.last.err != nil {
		return nil, x.last.err
	}
	if x.last.retryAfter {
		response.Header.Set(retryAfterHeader, "1")
	}
	return response, nil
}

// noteRefusedWrite notes that the process did not send a write.
func (sim *simulation) noteRefusedWrite(x exchange, err error) {
	if !sim.election.leads {
		sim.failf("a standby writes: %s", x.what)
	}
	sim.count("a write is not sent, since the process may not lead")
	sim.fencesFail = sim.fencesFail || sim.inHandover()
	sim.logf("%s: not sent: %s: %v", sim.tasks.current.name, x.what, err)
}
