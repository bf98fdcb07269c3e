package volumes

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berthdev/berth/scheduler/framework"
)

// hold is what is assumed for one pod. One pod's steps come one after the other,
// so that it needs no lock.
type hold struct {
	parent  *Volumes
	volumes []*v1.PersistentVolume
	claims  []*v1.PersistentVolumeClaim
	// wrote are what the API server made of them.
	writtenVolumes map[string]*v1.PersistentVolume
	writtenClaims  map[string]*v1.PersistentVolumeClaim
}

var _ framework.VolumeHold = &hold{}

// Assume takes changed copies of volumes and claims for what they will be.
func (v *Volumes) Assume(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) (framework.VolumeHold, error) {
	h := &hold{
		parent: v, volumes: volumes, claims: claims,
		writtenVolumes: map[string]*v1.PersistentVolume{}, writtenClaims: map[string]*v1.PersistentVolumeClaim{},
	}
	if err := v.volumes.assume(h, volumes); err != nil {
		return nil, err
	}
	if err := v.claims.assume(h, claims); err != nil {
		h.Release()
		return nil, err
	}
	return h, nil
}

// Volume returns what was written.
func (h *hold) Volume(name string) *v1.PersistentVolume { return h.writtenVolumes[name] }

// Claim returns what was written.
func (h *hold) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return h.writtenClaims[namespace+"/"+name]
}

// Release takes back what was not written, and tells of it: others may have
// been refused because of it.
func (h *hold) Release() {
	for _, of := range h.volumes {
		if before, after, changed := h.parent.volumes.release(h, keyOf(of)); changed {
			h.parent.notifyReleased(before, after)
		}
	}
	for _, of := range h.claims {
		if before, after, changed := h.parent.claims.release(h, keyOf(of)); changed {
			h.parent.notifyReleased(before, after)
		}
	}
}

func (v *Volumes) notifyReleased(before, after metav1.Object) {
	if v.options.Released != nil {
		v.options.Released(before, after)
	}
}

// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=patch,roleName=volume-binder-role

// Write tells the API server what is assumed. A patch names the version that the
// decision was made from, so that of two who want the same volume one fails; and
// it says no more than what changes, since informers do not keep all.
func (h *hold) Write(ctx context.Context) error {
	core := h.parent.options.Client.CoreV1()
	for _, of := range h.volumes {
		change := patchOf(of, volume.AnnBoundByController)
		change.Spec = &specPatch{ClaimRef: of.Spec.ClaimRef}
		patch, err := json.Marshal(change)
		if err != nil {
			return err
		}
		wrote, err := core.PersistentVolumes().Patch(ctx, of.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		h.writtenVolumes[of.Name] = wrote
		h.parent.volumes.markWritten(h, keyOf(of))
	}
	for _, of := range h.claims {
		patch, err := json.Marshal(patchOf(of, volume.AnnSelectedNode))
		if err != nil {
			return err
		}
		wrote, err := core.PersistentVolumeClaims(of.Namespace).Patch(ctx, of.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		h.writtenClaims[keyOf(of)] = wrote
		h.parent.claims.markWritten(h, keyOf(of))
	}
	return nil
}

// patch is a merge patch.
type patch struct {
	Metadata metadataPatch `json:"metadata"`
	Spec     *specPatch    `json:"spec,omitempty"`
}

type metadataPatch struct {
	UID             types.UID         `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations,omitempty"`
}

type specPatch struct {
	ClaimRef *v1.ObjectReference `json:"claimRef"`
}

// patchOf sets an annotation where the object has it.
func patchOf(of metav1.Object, annotation string) patch {
	p := patch{Metadata: metadataPatch{UID: of.GetUID(), ResourceVersion: of.GetResourceVersion()}}
	if value, ok := of.GetAnnotations()[annotation]; ok {
		p.Metadata.Annotations = map[string]string{annotation: value}
	}
	return p
}

// OnTrial returns v for plugins that are only asked: they cannot assume or write
// anything, and their errors are not counted.
func (v *Volumes) ReadOnly() framework.Volumes { return readOnly{v} }

type readOnly struct{ *Volumes }

func (readOnly) Assume([]*v1.PersistentVolume, []*v1.PersistentVolumeClaim) (framework.VolumeHold, error) {
	return nil, fmt.Errorf("on trial no volume is assumed")
}

func (readOnly) CountFailure(string) {}
