package scheduler

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/trial"
)

// trials are what trials of profiles are made of.
func (s *Scheduler) trials() *profile.Trials {
	reading := sync.OnceValues(func() (*restclient.Config, clientset.Interface) { return readOnlyClient(s.options.KubeConfig) })
	towns := trial.NewPool(s.options.Clock)
	return &profile.Trials{ClusterState: func(name string) (*trial.ClusterState, error) { return s.clusterState(name, towns) }, HostFor: func(_ string, town *trial.Sandbox) framework.Host {
		config, client := reading()
		return framework.Host{
			Client: client, KubeConfig: config, Informers: s.options.Informers, Recorder: noopRecorder{},
			Lister: town.Lister(), Nominator: town.Nominator(), Activator: noopActivator{},
			WaitingPods: framework.NewWaitingPods(s.options.Clock), PodsInPreBind: framework.NewPodsInPreBind(), Volumes: s.volumes.ReadOnly(), Clock: s.options.Clock,
			Go: s.options.Go, Wait: s.options.Wait,
		}
	}}
}

// scene is the cluster as the informers hold it, which the loop does not wait
// for, and what is only assumed or promised.
func (s *Scheduler) clusterState(name string, towns *trial.Pool) (*trial.ClusterState, error) {
	core := s.options.Informers.Core().V1()
	return trial.Source{
		Nodes: core.Nodes().Lister(), Pods: core.Pods().Lister(), Cache: s.cache, Unsupported: s.options.Unsupported,
		Pool: towns,
	}.Read(name)
}

// mute tells nobody.
type noopRecorder struct{}

func (noopRecorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
func (m noopRecorder) WithLogger(klog.Logger) events.EventRecorderLogger     { return m }

// nobody is who waits where nothing is scheduled.
type noopActivator struct{}

func (noopActivator) Activate(klog.Logger, map[string]*v1.Pod) {}

// readingOnly returns a copy of config, and a client, whose writes are refused
// before they leave the process. Without a config nothing can be read either.
func readOnlyClient(config *restclient.Config) (*restclient.Config, clientset.Interface) {
	if config == nil {
		config = &restclient.Config{Host: "https://trial.invalid", QPS: -1, Transport: readOnlyTransport{}}
	} else {
		config = restclient.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnlyTransport{next} })
	}
	client, err := clientset.NewForConfig(config)
	if err != nil { // not of a config that the house could use
		return readOnlyClient(nil)
	}
	return config, client
}

// refusing lets reads through; nil lets nothing through.
type readOnlyTransport struct{ next http.RoundTripper }

var errOnTrial = errors.New("the profile is only on trial")

// RoundTrip refuses what is no read.
func (r readOnlyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads := request.Method == http.MethodGet || request.Method == http.MethodHead; reads && r.next != nil {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // nothing is read from it
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errOnTrial)
}
