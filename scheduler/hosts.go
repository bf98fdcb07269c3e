package scheduler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/trial"
	"github.com/berthdev/berth/scheduler/volumes"
)

// hostFor returns a function that builds the Host of a profile's plugins. All
// Hosts share PodsInPreBind and the preemptor.
func (s *Scheduler) hostFor() func(name string) framework.Host {
	podsInPreBind, preemptor := framework.NewPodsInPreBind(), newPreemptor(s)
	return func(name string) framework.Host {
		return framework.Host{
			Client: s.options.Client, KubeConfig: s.options.KubeConfig, Informers: s.options.Informers,
			Recorder: s.options.RecorderFor(name), Lister: s.cache.Snapshot(), PinnedLister: s.cache.PinnedSnapshot(), Nominator: s.cache.Nominator,
			Activator: activator{s.queue}, WaitingPods: s.waitingPods, PodsInPreBind: podsInPreBind,
			Preemptor: preemptor, Volumes: s.sharedVolumes(), Clock: s.options.Clock,
			OnPluginFault: func(pod *v1.Pod, f framework.PluginFault) { s.queue.RecordPluginFault(pod.UID, f) },
			Go:            s.options.Go, Wait: s.options.Wait,
		}
	}
}

// activator implements framework.Activator on the queue.
type activator struct{ queue *queue.Queue }

func (a activator) Activate(logger klog.Logger, pods map[string]*v1.Pod) {
	a.queue.Activate(klog.NewContext(context.Background(), logger), pods)
}

// watchVolumes connects the volume cache to the informers of volumes and claims,
// where the API server serves both.
func (s *Scheduler) watchVolumes() error { return s.watchVolumesWith(s.volumes) }

func (s *Scheduler) watchVolumesWith(v *volumes.Volumes) error {
	for _, kind := range s.options.Storage.Missing() {
		switch kind.(type) {
		case *v1.PersistentVolume, *v1.PersistentVolumeClaim:
			return nil
		}
	}
	core := s.options.Informers.Core().V1()
	return v.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer())
}

// sharedVolumes returns the volume cache, which is the same for all generations.
func (s *Scheduler) sharedVolumes() framework.Volumes {
	if !fault.VolumesByGeneration {
		return s.volumes
	}
	own := volumes.New(volumes.Options{Client: s.options.Client, Clock: s.options.Clock, Wait: s.options.Wait, Released: s.volumeReleased})
	if err := s.watchVolumesWith(own); err != nil {
		panic(err)
	}
	return own
}

// volumeReleased requeues the pods that wait for an assumed volume or claim that was
// released: the API server sends no event for it.
func (s *Scheduler) volumeReleased(before, after metav1.Object) {
	kind := fwk.PersistentVolume
	if _, is := after.(*v1.PersistentVolumeClaim); is {
		kind = fwk.PersistentVolumeClaim
	}
	s.queue.Event(klog.NewContext(s.bindingContext, s.options.Log), fwk.ClusterEvent{Resource: kind, ActionType: fwk.Update}, before, after, nil)
}

// trials returns what a trial of a profile runs on: a copy of the cluster state, and
// a Host whose clients refuse writes.
func (s *Scheduler) trials() *profile.Trials {
	readOnly := sync.OnceValues(func() (*restclient.Config, clientset.Interface) { return readOnlyClient(s.options.KubeConfig) })
	pool := trial.NewPool(s.options.Clock)
	return &profile.Trials{ClusterState: func(name string) (*trial.ClusterState, error) { return s.clusterState(name, pool) }, HostFor: func(_ string, sandbox *trial.Sandbox) framework.Host {
		config, client := readOnly()
		return framework.Host{
			Client: client, KubeConfig: config, Informers: s.options.Informers, Recorder: noopRecorder{},
			Lister: sandbox.Lister(), Nominator: sandbox.Nominator(), Activator: noopActivator{},
			WaitingPods: framework.NewWaitingPods(s.options.Clock), PodsInPreBind: framework.NewPodsInPreBind(), Volumes: s.volumes.ReadOnly(), Clock: s.options.Clock,
			Go: s.options.Go, Wait: s.options.Wait,
		}
	}}
}

// clusterState copies the nodes and pods of the informers' stores, without waiting
// for the loop, and adds assumed and nominated pods.
func (s *Scheduler) clusterState(name string, pool *trial.Pool) (*trial.ClusterState, error) {
	core := s.options.Informers.Core().V1()
	return trial.Source{
		Nodes: core.Nodes().Lister(), Pods: core.Pods().Lister(), Cache: s.cache, Unsupported: s.options.Unsupported,
		Pool: pool,
	}.Read(name)
}

// noopRecorder drops all Events.
type noopRecorder struct{}

func (noopRecorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
func (r noopRecorder) WithLogger(klog.Logger) events.EventRecorderLogger     { return r }

// noopActivator activates no pod: a trial has no queue.
type noopActivator struct{}

func (noopActivator) Activate(klog.Logger, map[string]*v1.Pod) {}

// readOnlyClient returns a copy of config, and a client, that refuse writes before
// they leave the process. Without a config they refuse reads as well.
func readOnlyClient(config *restclient.Config) (*restclient.Config, clientset.Interface) {
	if config == nil {
		config = &restclient.Config{Host: "https://trial.invalid", QPS: -1, Transport: readOnlyTransport{}}
	} else {
		config = restclient.CopyConfig(config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return readOnlyTransport{next} })
	}
	client, err := clientset.NewForConfig(config)
	if err != nil { // impossible for a config that Berth itself uses
		return readOnlyClient(nil)
	}
	return config, client
}

// readOnlyTransport passes reads on to next and refuses all other requests; with
// next nil it refuses all.
type readOnlyTransport struct{ next http.RoundTripper }

var errOnTrial = errors.New("the profile is only on trial")

// RoundTrip passes GET and HEAD requests on, and refuses others with errOnTrial.
func (r readOnlyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if reads := request.Method == http.MethodGet || request.Method == http.MethodHead; reads && r.next != nil {
		return r.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close() // nothing is read from it
	}
	return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, errOnTrial)
}
