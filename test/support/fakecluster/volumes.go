package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/component-helpers/storage/volume"
)

var (
	volumeResource = v1.SchemeGroupVersion.WithResource("persistentvolumes")
	claimResource  = v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// PersistentVolumes returns a client for the volumes of the cluster.
func (k core) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumes{k.CoreV1Interface.PersistentVolumes(), k.cluster}
}

// PersistentVolumeClaims returns a client for the claims of the cluster.
func (k core) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return claims{k.CoreV1Interface.PersistentVolumeClaims(namespace), k.cluster, namespace}
}

type volumes struct {
	corev1.PersistentVolumeInterface
	cluster *Cluster
}

type claims struct {
	corev1.PersistentVolumeClaimInterface
	cluster   *Cluster
	namespace string
}

// Patch is recorded with the verb volume.
func (v volumes) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*v1.PersistentVolume, error) {
	patched := &v1.PersistentVolume{}
	err := v.cluster.call(ctx, "volume", name, func() error {
		if err := v.cluster.mergePatch(volumeResource, types.NamespacedName{Name: name}, patch, patched); err != nil {
			return err
		}
		if v.cluster.volumeController {
			v.cluster.bindVolume(patched)
		}
		return nil
	})
	return patched, err
}

// Patch is recorded with the verb claim.
func (c claims) Patch(ctx context.Context, name string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*v1.PersistentVolumeClaim, error) {
	patched := &v1.PersistentVolumeClaim{}
	err := c.cluster.call(ctx, "claim", name, func() error {
		if err := c.cluster.mergePatch(claimResource, types.NamespacedName{Namespace: c.namespace, Name: name}, patch, patched); err != nil {
			return err
		}
		if c.cluster.volumeController && patched.Annotations[volume.AnnSelectedNode] != "" && patched.Spec.VolumeName == "" {
			c.cluster.provisionVolume(patched)
		}
		return nil
	})
	return patched, err
}

// mergePatch applies a patch to the stored object, and returns the result in into.
func (c *Cluster) mergePatch(resource schema.GroupVersionResource, key types.NamespacedName, patch []byte, into interface {
	metav1.Object
	runtime.Object
}) error {
	stored, err := c.tracker.Get(resource, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	var pre metav1.PartialObjectMetadata
	if err := json.Unmarshal(patch, &pre); err != nil {
		return err
	}
	current := stored.(metav1.Object)
	if pre.UID != current.GetUID() || pre.ResourceVersion != current.GetResourceVersion() {
		return apierrors.NewConflict(resource.GroupResource(), key.Name, fmt.Errorf("the UID is %s and the version is %s", current.GetUID(), current.GetResourceVersion()))
	}
	original, err := json.Marshal(stored)
	if err != nil {
		return err
	}
	merged, err := strategicpatch.StrategicMergePatch(original, patch, stored)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(merged, into); err != nil {
		return err
	}
	c.setResourceVersion(into)
	return c.tracker.Update(resource, into, key.Namespace)
}

// Replace replaces a volume, a claim or a ResourceClaim, as another client would.
func (c *Cluster) Replace(object interface {
	metav1.Object
	runtime.Object
}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := volumeResource
	switch object.(type) {
	case *v1.PersistentVolumeClaim:
		resource = claimResource
	case *resourceapi.ResourceClaim:
		resource = resourceClaimResource
	}
	c.setResourceVersion(object)
	if err := c.tracker.Update(resource, object, object.GetNamespace()); err != nil {
		panic(err)
	}
}

// RunVolumeController makes the cluster act as the volume controller and a provisioner:
// it binds volumes that name a claim, and provisions volumes for claims that name a
// node.
func (c *Cluster) RunVolumeController() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumeController = true
}

// bindVolume does what the volume controller does for a volume that names its claim.
func (c *Cluster) bindVolume(pv *v1.PersistentVolume) {
	ref := pv.Spec.ClaimRef
	object, err := c.tracker.Get(claimResource, ref.Namespace, ref.Name)
	if err != nil {
		return
	}
	bound := pv.DeepCopy()
	bound.Status.Phase = v1.VolumeBound
	c.setResourceVersion(bound)
	claim := object.(*v1.PersistentVolumeClaim).DeepCopy()
	claim.Spec.VolumeName, claim.Status.Phase = pv.Name, v1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	c.setResourceVersion(claim)
	if err := c.tracker.Update(volumeResource, bound, ""); err != nil {
		panic(err)
	}
	if err := c.tracker.Update(claimResource, claim, claim.Namespace); err != nil {
		panic(err)
	}
}

// provisionVolume does what a provisioner does for a claim that names a node.
func (c *Cluster) provisionVolume(claim *v1.PersistentVolumeClaim) {
	made := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), UID: claim.UID + "-volume"}}
	made.Spec.StorageClassName = volume.GetPersistentVolumeClaimClass(claim)
	made.Spec.Capacity = claim.Spec.Resources.Requests
	made.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	c.setResourceVersion(made)
	if err := c.tracker.Add(made); err != nil {
		panic(err)
	}
	c.bindVolume(made)
}

// BoundVolumes returns the claim of each bound volume, as namespace/name.
func (c *Cluster) BoundVolumes() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.tracker.List(volumeResource, v1.SchemeGroupVersion.WithKind("PersistentVolume"), "")
	if err != nil {
		panic(err)
	}
	bound := map[string]string{}
	for _, pv := range list.(*v1.PersistentVolumeList).Items {
		if ref := pv.Spec.ClaimRef; ref != nil {
			bound[pv.Name] = strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
		}
	}
	return bound
}
