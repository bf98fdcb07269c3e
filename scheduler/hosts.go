package scheduler

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox"
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

// clusterState returns a function that reads the cluster for a trial of a profile: the nodes
// and pods of the informers' stores, without waiting for the loop, and assumed and nominated
// pods. The client of its Host refuses writes.
func (s *Scheduler) clusterState() func(name string) (*sandbox.ClusterState, error) {
	pool := sandbox.NewPool(s.options.Clock)
	refusing := sync.OnceValues(func() (*restclient.Config, clientset.Interface) {
		return sandbox.NewRefusingClient(s.options.KubeConfig)
	})
	return func(name string) (*sandbox.ClusterState, error) {
		core := s.options.Informers.Core().V1()
		config, client := refusing()
		return sandbox.Source{
			Nodes: core.Nodes().Lister(), Pods: core.Pods().Lister(), Cache: s.cache, Unsupported: s.options.Unsupported, Pool: pool,
			Host: framework.Host{
				Client: client, KubeConfig: config, Informers: s.options.Informers, Volumes: s.volumes.ReadOnly(),
				Clock: s.options.Clock, Go: s.options.Go, Wait: s.options.Wait,
			},
		}.Read(name)
	}
}
