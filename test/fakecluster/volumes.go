package fakecluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
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

// PersistentVolumes returns the client whose volumes are the cluster's.
func (k core) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumes{k.CoreV1Interface.PersistentVolumes(), k.cluster}
}

// PersistentVolumeClaims returns the client whose claims are the cluster's.
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

// Patch is a call of the verb volume.
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

// Patch is a call of the verb claim.
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

// merge applies a merge patch to what is stored, and gives it back in into.
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
	is := stored.(metav1.Object)
	if pre.UID != is.GetUID() || pre.ResourceVersion != is.GetResourceVersion() {
		return apierrors.NewConflict(resource.GroupResource(), key.Name, fmt.Errorf("it is %s at %s", is.GetUID(), is.GetResourceVersion()))
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

// Replace changes a volume or a claim, as somebody else would.
func (c *Cluster) Replace(object interface {
	metav1.Object
	runtime.Object
}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := volumeResource
	if _, is := object.(*v1.PersistentVolumeClaim); is {
		resource = claimResource
	}
	c.setResourceVersion(object)
	if err := c.tracker.Update(resource, object, object.GetNamespace()); err != nil {
		panic(err)
	}
}

// Control lets somebody play the controller of volumes, and a provisioner: a
// volume that names a claim is bound to it, and for a claim that names a node a
// volume is made.
func (c *Cluster) RunVolumeController() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumeController = true
}

// bound is what the controller makes of a volume that names its claim.
func (c *Cluster) bindVolume(of *v1.PersistentVolume) {
	ref := of.Spec.ClaimRef
	object, err := c.tracker.Get(claimResource, ref.Namespace, ref.Name)
	if err != nil {
		return
	}
	bound := of.DeepCopy()
	bound.Status.Phase = v1.VolumeBound
	c.setResourceVersion(bound)
	claim := object.(*v1.PersistentVolumeClaim).DeepCopy()
	claim.Spec.VolumeName, claim.Status.Phase = of.Name, v1.ClaimBound
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	c.setResourceVersion(claim)
	if err := c.tracker.Update(volumeResource, bound, ""); err != nil {
		panic(err)
	}
	if err := c.tracker.Update(claimResource, claim, claim.Namespace); err != nil {
		panic(err)
	}
}

// provisioned is what a provisioner makes of a claim that names a node.
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

// Bound says which claim, as namespace/name, each volume is bound to.
func (c *Cluster) BoundVolumes() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, err := c.tracker.List(volumeResource, v1.SchemeGroupVersion.WithKind("PersistentVolume"), "")
	if err != nil {
		panic(err)
	}
	bound := map[string]string{}
	for _, of := range list.(*v1.PersistentVolumeList).Items {
		if ref := of.Spec.ClaimRef; ref != nil {
			bound[of.Name] = strings.TrimPrefix(ref.Namespace+"/"+ref.Name, "/")
		}
	}
	return bound
}
