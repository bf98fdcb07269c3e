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

// watchVolumes lets the volumes be seen that are scheduled by.
func (s *Scheduler) watchVolumes() error { return s.watchVolumesWith(s.volumes) }

func (s *Scheduler) watchVolumesWith(room *volumes.Volumes) error {
	for _, kind := range s.options.Storage.Missing() {
		switch kind.(type) {
		case *v1.PersistentVolume, *v1.PersistentVolumeClaim:
			return nil
		}
	}
	core := s.options.Informers.Core().V1()
	return room.UseInformers(core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer())
}

// lentVolumes are the same for all generations.
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

// volumeReturned tells of a volume that is free again, or of a claim that is not
// on its way to a node any more, which the API server has no event for.
func (s *Scheduler) volumeReleased(before, after metav1.Object) {
	kind := fwk.PersistentVolume
	if _, is := after.(*v1.PersistentVolumeClaim); is {
		kind = fwk.PersistentVolumeClaim
	}
	s.queue.Event(klog.NewContext(s.bindingContext, s.options.Log), fwk.ClusterEvent{Resource: kind, ActionType: fwk.Update}, before, after, nil)
}
