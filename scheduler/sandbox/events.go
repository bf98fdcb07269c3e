package sandbox

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// What the scheduler is told, it is told as an informer's handlers are: of the
// version known before, nil for a new object, and the version after.

// SetNode adds or replaces a node.
func (s *Scheduler) SetNode(_, after *v1.Node) { s.cache.SetNode(after) }

// RemoveNode removes a node.
func (s *Scheduler) RemoveNode(last *v1.Node) { s.cache.RemoveNodeByName(last.Name) }

// SetPod does to the cache what intake does when it hears of a pod: one that
// has a node takes its room there, one that has none and was promised some
// keeps that.
func (s *Scheduler) SetPod(before, after *v1.Pod) error {
	if after.Spec.NodeName != "" {
		s.cache.SetPod(after)
		s.cache.DeleteNominatedPodIfExists(after)
		return nil
	}
	if _, assumed := s.cache.AssumedNode(after.UID); assumed {
		return nil
	}
	info, _ := framework.NewPodInfo(after)
	if before == nil {
		s.cache.AddNominatedPod(klog.Background(), info, nil)
	} else {
		s.cache.UpdateNominatedPod(klog.Background(), before, info)
	}
	return nil
}

// RemovePod removes a pod and what it holds, be it assumed or promised.
func (s *Scheduler) RemovePod(last *v1.Pod) error {
	s.cache.DeleteNominatedPodIfExists(last)
	s.cache.RemovePodByUID(last.UID)
	return nil
}

// SetObject puts an object that is neither node nor pod where plugins find it,
// and tells the cache of it as intake does. The error says that nothing in
// scheduling reads its kind.
func (s *Scheduler) SetObject(object runtime.Object) error {
	s.notifyCache(object)
	return s.Objects.SetObject(object)
}

// RemoveObject removes such an object; one that is not there may be removed.
func (s *Scheduler) RemoveObject(object runtime.Object) error {
	s.notifyCache(object)
	return s.Objects.RemoveObject(object)
}

func (s *Scheduler) notifyCache(object runtime.Object) {
	switch object.(type) {
	case *v1.Namespace:
		s.cache.MarkChanged(framework.NamespaceLabels)
	case *v1.Service, *v1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		s.cache.MarkChanged(framework.PodOwners)
	case *v1.PersistentVolume, *v1.PersistentVolumeClaim, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver,
		*storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		s.cache.MarkChanged(framework.StorageObjects)
	}
}
