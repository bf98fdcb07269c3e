package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/controllers"
)

// writesInFlight is how many writes of pods may be under way. Pods are bound
// beside the loop, which is faster than any API server: without a bound, a
// backlog of pods would become as many requests at once, for which the transport
// opens a connection a hundred and the server's fairness turns the rest away.
const writesInFlight = 64

// clients are the ways to the API server, one for each kind of traffic and
// with a connection of its own, so that binds wait behind nothing else.
type clients struct {
	// watches lists and watches, and is unbounded.
	watches clientset.Interface
	// writes binds and patches pods; plugins use it, too.
	writes clientset.Interface
	events clientset.Interface
	// decisions writes SchedulingDecisions, and yields to the rest.
	decisions restclient.Interface
	// busy says whether pods are being written.
	busy func() bool
}

func newClients(config *restclient.Config) (c clients, err error) {
	writes := make(chan struct{}, writesInFlight)
	c.busy = func() bool { return len(writes) > 0 }
	for _, way := range []struct {
		client *clientset.Interface
		slots  chan struct{} // nil: any number of requests at a time
	}{
		{&c.watches, nil},
		{&c.writes, writes},
		{&c.events, nil}, // its writers are counted
	} {
		if *way.client, err = clientset.NewForConfig(apart(protobuf(config), way.slots)); err != nil {
			return c, fmt.Errorf("making a client: %w", err)
		}
	}
	c.decisions, err = controllers.NewDecisionsClient(apart(restclient.CopyConfig(config), nil))
	return c, err
}

// apart gives config connections of its own: client-go shares them between
// configurations that dial alike. slots, where there are any, bound the requests
// under way.
func apart(config *restclient.Config, slots chan struct{}) *restclient.Config {
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	if slots != nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next, slots} })
	}
	return config
}

// bounded lets so many requests through at a time as slots has room for.
type bounded struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip waits for a slot, or until the request is given up.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
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
