package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The verbs of Berth's writes to volumes and claims.
const (
	patchVolume = "patch volume"
	patchClaim  = "patch claim"
)

func (c *client) PersistentVolumes() corev1.PersistentVolumeInterface {
	return volumeClient{sim: c.sim}
}

func (c *client) PersistentVolumeClaims(namespace string) corev1.PersistentVolumeClaimInterface {
	return claimClient{sim: c.sim, namespace: namespace}
}

type volumeClient struct {
	corev1.PersistentVolumeInterface
	sim *simulation
}

type claimClient struct {
	corev1.PersistentVolumeClaimInterface
	sim       *simulation
	namespace string
}

// volumePatch is what a patch of a volume or a claim can have.
type volumePatch struct {
	Metadata struct {
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec *struct {
		ClaimRef *v1.ObjectReference `json:"claimRef"`
	} `json:"spec"`
}

// readVolumePatch fails for a field that the model does not store.
func readVolumePatch(data []byte) (p volumePatch, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return p, d.Decode(&p)
}

func (c volumeClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.PersistentVolume, error) {
	return patchObject(ctx, c.sim, patchVolume, name, data, func(p *v1.PersistentVolume, patch volumePatch) {
		if patch.Spec != nil {
			c.sim.checkVolumePatch(p, patch.Spec.ClaimRef)
			p.Spec.ClaimRef = patch.Spec.ClaimRef
		}
	})
}

func (c claimClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*v1.PersistentVolumeClaim, error) {
	return patchObject(ctx, c.sim, patchClaim, c.namespace+"/"+name, data, func(claim *v1.PersistentVolumeClaim, patch volumePatch) {
		if patch.Spec != nil {
			c.sim.failf("the spec of claim %s is patched", describe(claim))
		}
	})
}

// patchObject is a merge patch of annotations and what change does, at the UID and the version
// that the patch names.
func patchObject[T interface {
	object
	comparable
}](ctx context.Context, sim *simulation, verb, key string, data []byte, change func(T, volumePatch)) (T, error) {
	var none, written T
	patch, err := readVolumePatch(data)
	if err != nil {
		return none, err
	}
	what := fmt.Sprintf("%s %s (version %s): %s", verb, key, patch.Metadata.ResourceVersion, data)
	err = sim.callOrCancel(ctx, verb, what, patch.Metadata.UID, func() error {
		resource := schema.GroupResource{Resource: verb}
		switch stored := find[T](sim.server, key); {
		case stored == none:
			return apierrors.NewNotFound(resource, key)
		case patch.Metadata.UID != "" && patch.Metadata.UID != stored.GetUID():
			return apierrors.NewConflict(resource, key, fmt.Errorf("the UID is another"))
		case patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != stored.GetResourceVersion():
			return apierrors.NewConflict(resource, key, fmt.Errorf("the resource version is another"))
		default:
			written = edit(sim.server, stored, func(o T) {
				annotations := maps.Clone(o.GetAnnotations())
				if annotations == nil {
					annotations = map[string]string{}
				}
				maps.Copy(annotations, patch.Metadata.Annotations)
				o.SetAnnotations(annotations)
				change(o, patch)
			})
			return nil
		}
	})
	if err != nil {
		return none, err
	}
	return written.DeepCopyObject().(T), nil // as each response is decoded
}
