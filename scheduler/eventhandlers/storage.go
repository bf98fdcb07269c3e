package eventhandlers

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// storageKind is a kind of object that describes volumes or where they may be.
type storageKind struct {
	object          runtime.Object
	version, plural string
	event           fwk.EventResource
	informer        func(informers.SharedInformerFactory) toolscache.SharedIndexInformer
}

// storageKinds are all kinds of storage objects. An older API server may not serve
// some of them.
var storageKinds = []storageKind{
	{&v1.PersistentVolume{}, "v1", "persistentvolumes", fwk.PersistentVolume,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Core().V1().PersistentVolumes().Informer()
		}},
	{&v1.PersistentVolumeClaim{}, "v1", "persistentvolumeclaims", fwk.PersistentVolumeClaim,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Core().V1().PersistentVolumeClaims().Informer()
		}},
	{&storagev1.StorageClass{}, "storage.k8s.io/v1", "storageclasses", fwk.StorageClass,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Storage().V1().StorageClasses().Informer()
		}},
	{&storagev1.CSINode{}, "storage.k8s.io/v1", "csinodes", fwk.CSINode,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Storage().V1().CSINodes().Informer()
		}},
	{&storagev1.CSIDriver{}, "storage.k8s.io/v1", "csidrivers", fwk.CSIDriver,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Storage().V1().CSIDrivers().Informer()
		}},
	{&storagev1.CSIStorageCapacity{}, "storage.k8s.io/v1", "csistoragecapacities", fwk.CSIStorageCapacity,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Storage().V1().CSIStorageCapacities().Informer()
		}},
	{&storagev1.VolumeAttachment{}, "storage.k8s.io/v1", "volumeattachments", fwk.VolumeAttachment,
		func(f informers.SharedInformerFactory) toolscache.SharedIndexInformer {
			return f.Storage().V1().VolumeAttachments().Informer()
		}},
}

// Storage are the kinds of storage objects that the API server serves. The zero
// value is none of them.
type Storage struct{ served []storageKind }

// NewStorage asks the API server which kinds it serves. It returns the error of
// discovery.
func NewStorage(server discovery.DiscoveryInterface) (Storage, error) {
	var s Storage
	lists := map[string]*metav1.APIResourceList{}
	for _, kind := range storageKinds {
		if _, asked := lists[kind.version]; !asked {
			list, err := server.ServerResourcesForGroupVersion(kind.version)
			if err != nil && !apierrors.IsNotFound(err) {
				return Storage{}, err
			}
			lists[kind.version] = list
		}
		if serves(lists[kind.version], kind.plural) {
			s.served = append(s.served, kind)
		}
	}
	return s, nil
}

// AllStorage returns all kinds, for callers that provide their own informers.
func AllStorage() Storage { return Storage{storageKinds} }

func serves(list *metav1.APIResourceList, plural string) bool {
	return list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural })
}

// Kinds returns the kinds that are served, each as an empty object.
func (s Storage) Kinds() []runtime.Object {
	var kinds []runtime.Object
	for _, kind := range s.served {
		kinds = append(kinds, kind.object)
	}
	return kinds
}

// Missing returns the kinds that are not served, each as an empty object.
func (s Storage) Missing() []runtime.Object {
	var kinds []runtime.Object
	for _, kind := range storageKinds {
		if !slices.ContainsFunc(s.served, func(k storageKind) bool { return k.plural == kind.plural }) {
			kinds = append(kinds, kind.object)
		}
	}
	return kinds
}

// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses;csinodes;csidrivers;csistoragecapacities;volumeattachments,verbs=list;watch

// addStorageHandlers adds handlers for the kinds that are served. As in
// kube-scheduler, hints get every update: which fields matter differs by plugin.
func (h *EventHandlers) addStorageHandlers(factory informers.SharedInformerFactory) (synced []toolscache.InformerSynced, err error) {
	for _, kind := range h.options.Storage.served {
		registration, err := addHandler(h, kind.informer(factory), kind.event, framework.StorageObjects, versionChanged)
		if err != nil {
			return nil, err
		}
		synced = append(synced, registration.HasSynced)
	}
	return synced, nil
}

// versionChanged reports whether a and b are different versions. When a watch is
// restarted, an informer may deliver updates for objects that did not change.
func versionChanged(a, b metav1.Object) bool {
	return a.GetResourceVersion() == "" || a.GetResourceVersion() != b.GetResourceVersion()
}
