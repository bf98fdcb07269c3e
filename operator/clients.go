package operator

import (
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"

	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/leadership"
)

// clients are the ways to the API server, one for each kind of traffic and
// with a connection of its own, so that binds wait behind nothing else.
type clients struct {
	// watches lists and watches, and is unbounded.
	watches clientset.Interface
	// writes binds and patches pods; plugins use it, too.
	writes clientset.Interface
	// volumes binds volumes and claims.
	volumes clientset.Interface
	// journal writes the journal of Bindings, one request at a time.
	journal clientset.Interface
	events  clientset.Interface
	// dynamic watches what plugins want to be woken by and Berth does not watch.
	dynamic dynamic.Interface
	// meta lists what there is, when this process begins to lead.
	meta metadata.Interface
	// decisions writes SchedulingDecisions, one at a time and twenty a second.
	decisions restclient.Interface
	// busy says whether pods are being written.
	bindsInProgress func() bool
}

// newClients makes them. What changes pods and volumes is sent as writing says, in term
// only, and belongs to the trace of its attempt.
func newClients(config, writing *restclient.Config, term *leadership.Tracker, traced *traces) (c clients, err error) {
	fenced := restclient.CopyConfig(writing)
	term.FenceWrites(fenced)
	traced.wrap(fenced)
	writes := make(chan struct{}, binding.MaxInFlight)
	c.bindsInProgress = func() bool { return len(writes) > 0 }
	for _, way := range []struct {
		client *clientset.Interface
		config *restclient.Config
		slots  chan struct{} // nil: any number of requests at a time
	}{
		{&c.watches, config, nil},
		{&c.writes, fenced, writes},
		{&c.volumes, fenced, make(chan struct{}, binding.MaxInFlight)},
		{&c.journal, fenced, nil},
		{&c.events, config, nil}, // its writers are counted
	} {
		if *way.client, err = clientset.NewForConfig(withOwnConnections(withProtobuf(way.config), way.slots)); err != nil {
			return c, fmt.Errorf("making a client: %w", err)
		}
	}
	if c.dynamic, err = dynamic.NewForConfig(withOwnConnections(restclient.CopyConfig(config), nil)); err != nil {
		return c, fmt.Errorf("making a client: %w", err)
	}
	if c.meta, err = metadata.NewForConfig(withOwnConnections(restclient.CopyConfig(config), nil)); err != nil {
		return c, fmt.Errorf("making a client: %w", err)
	}
	c.decisions, err = explainer.NewClient(withOwnConnections(restclient.CopyConfig(config), nil))
	return c, err
}

// apart gives config connections of its own: client-go shares them between
// configurations that dial alike. slots, where there are any, bound the requests
// under way.
func withOwnConnections(config *restclient.Config, slots chan struct{}) *restclient.Config {
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	if slots != nil {
		binding.LimitInFlight(config, slots)
	}
	return config
}
