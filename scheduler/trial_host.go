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
	reading := sync.OnceValues(func() (*restclient.Config, clientset.Interface) { return readingOnly(s.options.KubeConfig) })
	towns := trial.NewTowns(s.options.Clock)
	return &profile.Trials{Scene: func(name string) (*trial.Scene, error) { return s.scene(name, towns) }, HostFor: func(_ string, town *trial.Town) framework.Host {
		config, client := reading()
		return framework.Host{
			Client: client, KubeConfig: config, Informers: s.options.Informers, Recorder: mute{},
			Lister: town.Lister(), Nominator: town.Nominator(), Activator: nobody{},
			Waiting: framework.NewWaitingPods(s.options.Clock), PreBinds: framework.NewPreBinds(), Volumes: s.volumes.OnTrial(), Clock: s.options.Clock,
			Go: s.options.Go, Wait: s.options.Wait,
		}
	}}
}

// scene is the cluster as the informers hold it, which the loop does not wait
// for, and what is only assumed or promised.
func (s *Scheduler) scene(name string, towns *trial.Towns) (*trial.Scene, error) {
	core := s.options.Informers.Core().V1()
	return trial.Source{
		Nodes: core.Nodes().Lister(), Pods: core.Pods().Lister(), Live: s.cache, Unsupported: s.options.Unsupported,
		Towns: towns,
	}.Take(name)
}

// mute tells nobody.
type mute struct{}

func (mute) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
func (m mute) WithLogger(klog.Logger) events.EventRecorderLogger     { return m }

// nobody is who waits where nothing is scheduled.
type nobody struct{}

func (nobody) Activate(klog.Logger, map[string]*v1.Pod) {}

// readingOnly returns a copy of config, and a client, whose writes are refused
// before they leave the process. Without a config nothing can be read either.
func readingOnly(config *restclient.Config) (*restclient.Config, clientset.Interface) {
	if config == nil {
		config = &restclient.Config{Host: "https://trial.invalid", QPS: -1, Transport: refusing{}}
	} else {
		config = restclient.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next} })
	}
	client, err := clientset.NewForConfig(config)
	if err != nil { // not of a config that the house could use
		return readingOnly(nil)
	}
	return config, client
}

// refusing lets reads through; nil lets nothing through.
type refusing struct{ next http.RoundTripper }

var errOnTrial = errors.New("the profile is only on trial")

// RoundTrip refuses what is no read.
func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads := request.Method == http.MethodGet || request.Method == http.MethodHead; reads && r.next != nil {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // nothing is read from it
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errOnTrial)
}
