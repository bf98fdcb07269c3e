package sandbox

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// The methods take events in the form of an informer's handlers: the last known version,
// nil for a new object, and the new version.

// SetNode adds or replaces a node.
func (s *Scheduler) SetNode(_, after *v1.Node) { s.cluster.cache.SetNode(after) }

// RemoveNode removes a node.
func (s *Scheduler) RemoveNode(last *v1.Node) { s.cluster.cache.RemoveNodeByName(last.Name) }

// SetPod updates the cache like package eventhandlers: a pod with a node uses resources of
// that node, and a pod without one keeps its nomination.
func (s *Scheduler) SetPod(before, after *v1.Pod) {
	if after.Spec.NodeName != "" {
		s.cluster.cache.SetPod(after)
		s.cluster.cache.DeleteNominatedPodIfExists(after)
		return
	}
	if _, assumed := s.cluster.cache.AssumedNode(after.UID); assumed {
		return
	}
	info, _ := framework.NewPodInfo(after)
	if before == nil {
		s.cluster.cache.AddNominatedPod(klog.Background(), info, nil)
	} else {
		s.cluster.cache.UpdateNominatedPod(klog.Background(), before, info)
	}
}

// RemovePod removes a pod, whether it is assumed, bound or nominated.
func (s *Scheduler) RemovePod(last *v1.Pod) {
	s.cluster.cache.DeleteNominatedPodIfExists(last)
	s.cluster.cache.RemovePodByUID(last.UID)
}

// SetObject adds or replaces an object that is neither node nor pod, and notifies the cache
// like package eventhandlers. The error says that the scheduler reads no objects of the
// kind.
func (s *Scheduler) SetObject(object runtime.Object) error {
	s.notifyCache(object)
	err := s.Objects.SetObject(object)
	s.endAllocation(object, false)
	return err
}

// RemoveObject removes such an object, if it exists.
func (s *Scheduler) RemoveObject(object runtime.Object) error {
	s.notifyCache(object)
	s.endAllocation(object, true)
	return s.Objects.RemoveObject(object)
}

func (s *Scheduler) notifyCache(object runtime.Object) {
	switch object.(type) {
	case *v1.Namespace:
		s.cluster.cache.MarkChanged(framework.NamespaceLabels)
	case *v1.Service, *v1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		s.cluster.cache.MarkChanged(framework.PodOwners)
	case *v1.PersistentVolume, *v1.PersistentVolumeClaim, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver,
		*storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		s.cluster.cache.MarkChanged(framework.StorageObjects)
	}
}

// Objects holds the objects beside pods and nodes, in the stores of informers that are
// never started. Only the informers of claims and devices call their handlers.
type Objects struct {
	Factory         informers.SharedInformerFactory
	deviceInformers *deviceInformers
}

// NewObjects returns Objects without any object. client is that of the informers.
func NewObjects(client clientset.Interface) Objects {
	factory := informers.NewSharedInformerFactory(client, 0)
	return Objects{factory, newDeviceInformers(factory)}
}

// SetObject adds or replaces an object. The error says that the scheduler reads no objects
// of the kind.
func (o Objects) SetObject(object runtime.Object) error {
	if informer := o.deviceInformers.informerOf(object); informer != nil {
		return informer.set(o.deviceInformers.numbered(object))
	}
	store, err := o.store(object)
	if err != nil {
		return err
	}
	return store.Update(object)
}

// RemoveObject removes an object, if it exists.
func (o Objects) RemoveObject(object runtime.Object) error {
	if informer := o.deviceInformers.informerOf(object); informer != nil {
		return informer.remove(object)
	}
	store, err := o.store(object)
	if err != nil {
		return err
	}
	return store.Delete(object)
}

func (o Objects) store(object runtime.Object) (toolscache.Store, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return nil, err
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	informer, err := o.Factory.ForResource(resource)
	if err != nil {
		return nil, fmt.Errorf("the scheduler reads no objects of kind %s", kinds[0].Kind)
	}
	return informer.Informer().GetStore(), nil
}
