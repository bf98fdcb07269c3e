package volumes

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// hold is what is assumed for one pod. The steps of one pod run one after the other,
// so that it needs no lock.
type hold struct {
	parent  *Volumes
	volumes []*v1.PersistentVolume
	claims  []*v1.PersistentVolumeClaim
	// writtenVolumes and writtenClaims are the objects in the API server's answers.
	writtenVolumes map[string]*v1.PersistentVolume
	writtenClaims  map[string]*v1.PersistentVolumeClaim
}

var _ framework.VolumeHold = &hold{}

// Assume replaces volumes and claims by changed copies until Release, or until the
// informer delivers a newer version. The error says that one of them has changed since
// it was copied; then nothing is assumed.
func (v *Volumes) Assume(volumes []*v1.PersistentVolume, claims []*v1.PersistentVolumeClaim) (framework.VolumeHold, error) {
	h := &hold{
		parent: v, volumes: volumes, claims: claims,
		writtenVolumes: map[string]*v1.PersistentVolume{}, writtenClaims: map[string]*v1.PersistentVolumeClaim{},
	}
	if err := v.volumes.assume(h, volumes); err != nil {
		return nil, err
	}
	if err := v.claims.assume(h, claims); err != nil {
		h.Release(true)
		return nil, err
	}
	return h, nil
}

// Volume returns a volume as it was written, nil when it was not.
func (h *hold) Volume(name string) *v1.PersistentVolume { return h.writtenVolumes[name] }

// Claim returns a claim as it was written, nil when it was not.
func (h *hold) Claim(namespace, name string) *v1.PersistentVolumeClaim {
	return h.writtenClaims[namespace+"/"+name]
}

// Release ends the assumptions that were not written. If other attempts may have seen them, it
// passes an event for each to the queue: other pods may have been rejected because of them.
func (h *hold) Release(seen bool) {
	for _, obj := range h.volumes {
		if before, after, changed := h.parent.volumes.release(h, keyOf(obj)); changed && seen {
			h.parent.requeueReleased(fwk.PersistentVolume, before, after)
		}
	}
	for _, obj := range h.claims {
		if before, after, changed := h.parent.claims.release(h, keyOf(obj)); changed && seen {
			h.parent.requeueReleased(fwk.PersistentVolumeClaim, before, after)
		}
	}
}

func (v *Volumes) requeueReleased(kind fwk.EventResource, before, after any) {
	if v.options.Queue != nil {
		ctx := klog.NewContext(context.Background(), v.options.Log)
		v.options.Queue.Event(ctx, fwk.ClusterEvent{Resource: kind, ActionType: fwk.Update}, before, after, nil)
	}
}

// +kubebuilder:rbac:groups="",resources=persistentvolumes;persistentvolumeclaims,verbs=patch,roleName=volume-binder-role

// Write patches the volumes and claims in the API server. A patch has the resource
// version of the object that was copied, so that of two pods which want one volume the
// second fails. It contains only what changes, since informers trim the objects.
func (h *hold) Write(ctx context.Context) error {
	core := h.parent.options.Client.CoreV1()
	for _, obj := range h.volumes {
		change := patchOf(obj, volume.AnnBoundByController)
		change.Spec = &specPatch{ClaimRef: obj.Spec.ClaimRef}
		patch, err := json.Marshal(change)
		if err != nil {
			return err
		}
		written, err := core.PersistentVolumes().Patch(ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		h.writtenVolumes[obj.Name] = written
		h.parent.volumes.markWritten(h, keyOf(obj))
	}
	for _, obj := range h.claims {
		patch, err := json.Marshal(patchOf(obj, volume.AnnSelectedNode))
		if err != nil {
			return err
		}
		written, err := core.PersistentVolumeClaims(obj.Namespace).Patch(ctx, obj.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		h.writtenClaims[keyOf(obj)] = written
		h.parent.claims.markWritten(h, keyOf(obj))
	}
	return nil
}

// patch is a JSON merge patch.
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

// patchOf returns a patch that sets annotation, where the object has it.
func patchOf(obj metav1.Object, annotation string) patch {
	p := patch{Metadata: metadataPatch{UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion()}}
	if value, ok := obj.GetAnnotations()[annotation]; ok {
		p.Metadata.Annotations = map[string]string{annotation: value}
	}
	return p
}

// ReadOnly returns v for the plugins of a sandbox: they cannot assume or write
// anything, and their errors are not counted.
func (v *Volumes) ReadOnly() framework.Volumes { return readOnly{v} }

type readOnly struct{ *Volumes }

func (readOnly) Assume([]*v1.PersistentVolume, []*v1.PersistentVolumeClaim) (framework.VolumeHold, error) {
	return nil, fmt.Errorf("a sandbox assumes no volumes")
}

func (readOnly) CountFailure(string) {}
