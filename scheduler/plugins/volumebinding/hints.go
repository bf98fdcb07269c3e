package volumebinding

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// EventsToRegister registers changes of all objects that decide whether a claim can be
// bound. Unlike upstream it also registers deletions of drivers, without which no storage
// capacity is required, of volumes that are reserved for a claim, without which it may get
// another, and of CSINodes, without which no plugin is migrated.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	event := func(resource fwk.EventResource, action fwk.ActionType, hint fwk.QueueingHintFn) fwk.ClusterEventWithHint {
		return fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: resource, ActionType: action}, QueueingHintFn: hint}
	}
	return []fwk.ClusterEventWithHint{
		event(fwk.StorageClass, fwk.Add|fwk.Update, isSchedulableAfterStorageClassChange),
		event(fwk.PersistentVolumeClaim, fwk.Add|fwk.Update, isSchedulableAfterPersistentVolumeClaimChange),
		event(fwk.PersistentVolume, fwk.Add|fwk.Update, nil),
		event(fwk.PersistentVolume, fwk.Delete, isSchedulableAfterPersistentVolumeDeletion),
		event(fwk.Node, fwk.Add|fwk.UpdateNodeLabel, nil),
		event(fwk.CSINode, fwk.Add|fwk.Update|fwk.Delete, isSchedulableAfterCSINodeChange),
		event(fwk.CSIDriver, fwk.Update|fwk.Delete, p.isSchedulableAfterCSIDriverChange),
		event(fwk.CSIStorageCapacity, fwk.Add|fwk.Update, isSchedulableAfterCSIStorageCapacityChange),
	}, nil
}

// isSchedulableAfterStorageClassChange requeues the pod when a class is new or allows
// other topologies.
func isSchedulableAfterStorageClassChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.StorageClass](oldObj, newObj)
	if err != nil || before == nil || !equality.Semantic.DeepEqual(before.AllowedTopologies, after.AllowedTopologies) {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterPersistentVolumeClaimChange requeues the pod when it uses the
// claim.
func isSchedulableAfterPersistentVolumeClaimChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, after, err := framework.EventObjects[*v1.PersistentVolumeClaim](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if usesClaim(pod, after.Namespace, after.Name) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// usesClaim reports whether a volume of the pod is the claim.
func usesClaim(pod *v1.Pod, namespace, claim string) bool {
	return namespace == pod.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		name, _ := claimName(pod, &v)
		return name == claim
	})
}

// isSchedulableAfterPersistentVolumeDeletion requeues the pod when the volume was reserved for a
// claim of the pod, which may get another one now.
func isSchedulableAfterPersistentVolumeDeletion(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, _, err := framework.EventObjects[*v1.PersistentVolume](oldObj, newObj)
	if err != nil || before == nil { // the last state of the volume is not known
		return fwk.Queue, err
	}
	if ref := before.Spec.ClaimRef; ref != nil && usesClaim(pod, ref.Namespace, ref.Name) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// isSchedulableAfterCSINodeChange requeues the pod when the CSINode is new, or its list
// of migrated plugins changed or is gone.
func isSchedulableAfterCSINodeChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.CSINode](oldObj, newObj)
	if err != nil || before == nil || migratedList(before) != migratedList(after) {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// migratedList returns the list of migrated plugins of a CSINode, which is nil after its deletion.
func migratedList(n *storagev1.CSINode) string {
	if n == nil {
		return ""
	}
	return n.Annotations[v1.MigratedPluginsAnnotationKey]
}

// isSchedulableAfterCSIDriverChange requeues the pod when a driver no longer publishes
// its storage capacity and may provision a claim of the pod. Upstream looks at inline
// volumes of the driver instead, for which no capacity is published.
func (p *Plugin) isSchedulableAfterCSIDriverChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.CSIDriver](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	counts := func(driver *storagev1.CSIDriver) bool {
		return driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
	}
	if counts(before) && !counts(after) && p.mayProvision(before.Name, pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// mayProvision reports whether a claim of the pod may be of a class that the driver
// provisions. It returns true where a claim or a class is not found.
func (p *Plugin) mayProvision(driver string, pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		name, _ := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			return true
		}
		class, err := p.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
		if err != nil || class.Provisioner == driver {
			return true
		}
	}
	return false
}

// isSchedulableAfterCSIStorageCapacityChange requeues the pod when larger volumes can
// be provisioned.
func isSchedulableAfterCSIStorageCapacityChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := framework.EventObjects[*storagev1.CSIStorageCapacity](oldObj, newObj)
	if err != nil || before == nil {
		return fwk.Queue, err
	}
	was, is := volumeLimit(before), volumeLimit(after)
	if is != nil && (was == nil || is.Value() > was.Value()) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}
