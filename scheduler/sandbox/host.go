package sandbox

import (
	"errors"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// Host returns what the Handle of plugins on the Cluster gives them: they see the copy, their
// Events are dropped, and the pods of the live scheduler are out of their reach.
func (c *Cluster) Host() framework.Host {
	c.inUse = true
	host := c.host
	host.Recorder, host.Activator = &events.FakeRecorder{}, noopActivator{}
	host.Lister, host.Nominator = c.cache.Snapshot(), c.cache.Nominator
	host.WaitingPods, host.PodsInPreBind = framework.NewWaitingPods(host.Clock), framework.NewPodsInPreBind()
	return host
}

// noopActivator activates no pods, since there is no queue.
type noopActivator struct{}

func (noopActivator) Activate(klog.Logger, map[string]*v1.Pod) {}

// NewRefusingClient returns a copy of config, and a client, that refuse writes before they
// leave the process. Without a config they refuse reads as well.
func NewRefusingClient(config *restclient.Config) (*restclient.Config, clientset.Interface) {
	if config == nil {
		config = &restclient.Config{Host: "https://sandbox.invalid", QPS: -1, Transport: refusingTransport{}}
	} else {
		config = restclient.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusingTransport{next} })
	}
	client, err := clientset.NewForConfig(config)
	if err != nil { // impossible for a config that Berth itself uses
		return NewRefusingClient(nil)
	}
	return config, client
}

var (
	// ErrOnTrial is the error of a refused write.
	ErrOnTrial     = errors.New("the profile is only on trial")
	errNoAPIServer = errors.New("there is no API server: the scheduler runs on objects that it was given")
)

// refusingTransport passes reads on to next and refuses all other requests; with next nil
// it refuses all.
type refusingTransport struct{ next http.RoundTripper }

func (r refusingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads := request.Method == http.MethodGet || request.Method == http.MethodHead; reads && r.next != nil {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // RoundTrip must close the body
	}
	if r.next == nil {
		return nil, errNoAPIServer
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrOnTrial)
}
