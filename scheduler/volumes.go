package scheduler

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/volumes"
)

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
