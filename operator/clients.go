package operator

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/binding"
	"github.com/berthdev/berth/scheduler/eventhandlers"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
)

// clients are the clients of the API server, one for each kind of traffic and with
// connections of its own, so that binds wait behind nothing else.
type clients struct {
	// watches lists and watches; its requests are not limited. It does not decode what the
	// informers drop.
	watches clientset.Interface
	// writes binds and patches pods; plugins use it too.
	writes clientset.Interface
	// volumes binds PersistentVolumes and PersistentVolumeClaims.
	volumes clientset.Interface
	// journal writes the journal of Bindings, one request at a time.
	journal clientset.Interface
	// records writes revisions and exports; its requests are not limited.
	records clientset.Interface
	events  clientset.Interface
	// dynamic watches the kinds that plugins register events for and that Berth does
	// not watch itself.
	dynamic dynamic.Interface
	// meta lists metadata when this process becomes the leader.
	meta metadata.Interface
	// decisions writes SchedulingDecisions, one at a time and at most twenty a second.
	decisions restclient.Interface
	// bindsInProgress reports whether pods are being written.
	bindsInProgress func() bool
}

// newClients creates the clients. Requests that change pods and volumes are sent as
// writing says and only while this process leads, and they belong to the trace of their
// attempt. SchedulingDecisions, revisions and exports, too, are written only while it leads.
// untrimmedPods says that informers hold all fields of pods.
func newClients(config, writing *restclient.Config, untrimmedPods bool, term *leadership.Tracker, traced *traces) (c clients, err error) {
	fenced := restclient.CopyConfig(writing)
	term.FenceWrites(fenced)
	traced.wrap(fenced)
	leading := restclient.CopyConfig(config)
	term.FenceWrites(leading)
	writes := make(chan struct{}, binding.MaxInFlight)
	c.bindsInProgress = func() bool { return len(writes) > 0 }
	for _, entry := range []struct {
		client *clientset.Interface
		config *restclient.Config
		slots  chan struct{} // nil: not limited
	}{
		{&c.writes, fenced, writes},
		{&c.volumes, fenced, make(chan struct{}, binding.MaxInFlight)},
		{&c.journal, fenced, nil},
		{&c.records, leading, nil},
		{&c.events, config, nil}, // the recorder limits its requests
	} {
		if *entry.client, err = clientset.NewForConfig(withOwnConnections(withProtobuf(entry.config), entry.slots)); err != nil {
			return c, fmt.Errorf("creating a client: %w", err)
		}
	}
	watching := withOwnConnections(withProtobuf(config), nil)
	bufferWatches(watching)
	if c.watches, err = eventhandlers.NewClient(watching, untrimmedPods); err != nil {
		return c, fmt.Errorf("creating a client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(withOwnConnections(restclient.CopyConfig(config), nil)); err != nil {
		return c, fmt.Errorf("creating a client: %w", err)
	}
	if c.meta, err = metadata.NewForConfig(withOwnConnections(restclient.CopyConfig(config), nil)); err != nil {
		return c, fmt.Errorf("creating a client: %w", err)
	}
	c.decisions, err = explainer.NewClient(withOwnConnections(leading, nil))
	return c, err
}

// newHistory returns the history of what ran, in Berth's namespace.
func (c clients) newHistory(namespace, process string, probation time.Duration) *history.History {
	return history.New(history.Options{
		Revisions: c.records.AppsV1().ControllerRevisions(namespace), Unfenced: c.watches.AppsV1().ControllerRevisions(namespace),
		Process: process, Clock: clock.RealClock{}, Probation: probation,
	})
}

// newExporter returns what writes exports into Berth's namespace.
func (c clients) newExporter(namespace string, registry framework.Registry) *export.Exporter {
	return export.NewExporter(c.records, namespace, registry)
}

// newControllerClient returns a client that writes only while this process leads.
func newControllerClient(config *restclient.Config, options client.Options, term *leadership.Tracker) (client.Client, error) {
	config = restclient.CopyConfig(config)
	term.FenceWrites(config)
	c, err := client.New(config, options)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return c, nil
}

// withOwnConnections gives config connections of its own: client-go shares connections
// between configurations that dial in the same way. slots bounds the number of requests
// under way; nil for no bound.
func withOwnConnections(config *restclient.Config, slots chan struct{}) *restclient.Config {
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	if slots != nil {
		binding.LimitInFlight(config, slots)
	}
	return config
}

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
	if err == nil || !isWatch(request) {
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

func isWatch(request *http.Request) bool {
	return request.Method == http.MethodGet && request.URL.Query().Get("watch") == "true"
}

// watchBufferSize is how much of a watch is read at once.
const watchBufferSize = 32 << 10

// bufferWatches reads watches in large pieces. client-go reads each event in two, and for every
// four KiB that are read HTTP/2 tells the API server, in a write of its own, that it may send as
// much again: at a start, on tens of megabytes of events, that is a tenth of the CPU time.
func bufferWatches(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return watchBuffer{next} })
}

type watchBuffer struct{ next http.RoundTripper }

// RoundTrip sends a request. The body of the response to a watch is read through a buffer, which
// returns what has arrived and does not wait until it is full.
func (b watchBuffer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err == nil && isWatch(request) {
		response.Body = bufferedBody{bufio.NewReaderSize(response.Body, watchBufferSize), response.Body}
	}
	return response, err
}

type bufferedBody struct {
	io.Reader
	io.Closer
}
