package volumebinding

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// PreBindPreFlight returns Skip if there are no claims to bind.
func (*Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	data, err := getStateData(state)
	switch {
	case err != nil:
		return result, fwk.AsStatus(err)
	case data == nil || !data.needsBinding:
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes what Reserve assumed, and waits until the volume controller has bound
// each claim. After an error the pod is scheduled again.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if data == nil || !data.needsBinding {
		return nil
	}
	if err := p.bindVolumes(ctx, data, pod, node); err != nil {
		p.volumes.CountFailure("bind")
		return fwk.AsStatus(err)
	}
	return nil
}

// bindVolumes writes the assumed volumes and claims, and waits until they are bound.
func (p *Plugin) bindVolumes(ctx context.Context, data *stateData, pod *v1.Pod, node string) error {
	if err := data.assumed.Write(ctx); err != nil {
		return err
	}
	c := &bindingCheck{Plugin: p, assumed: data.assumed, plan: data.planFor(node), pod: pod, node: node}
	if err := p.volumes.Await(ctx, p.timeout, data.claims.delayed, c.allBound); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

// bindingCheck checks the progress of a plan. It reads the objects as the API server
// last sent them, not as they are assumed: the scheduling cycles of other pods may
// assume more in the meantime.
type bindingCheck struct {
	*Plugin
	assumed framework.VolumeHold
	plan    *plan
	pod     *v1.Pod
	node    string

	nodeObject *v1.Node
	csi        *storagev1.CSINode
}

// allBound reports whether all claims are bound. It returns an error if they can no
// longer be bound, or not for this node.
func (c *bindingCheck) allBound() (bool, error) {
	var err error
	if c.nodeObject, err = c.nodes.Get(c.node); err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", c.node, err)
	}
	c.csi = c.csiNode(c.node)
	switch pod, err := c.pods.Pods(c.pod.Namespace).Get(c.pod.Name); {
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	case err == nil && pod.UID != c.pod.UID:
		return false, fmt.Errorf("pod does not exist any more: pod %q was re-created", c.pod.Name)
	}
	for _, b := range c.plan.bindings {
		if bound, err := c.isVolumeBound(b); !bound || err != nil {
			return false, err
		}
	}
	for _, planned := range c.plan.provisions {
		if provisioned, err := c.isVolumeProvisioned(planned.claim); !provisioned || err != nil {
			return false, err
		}
	}
	return true, nil
}

// isVolumeBound reports whether a claim is bound to the volume that was selected for
// it.
func (c *bindingCheck) isVolumeBound(b binding) (bool, error) {
	pv, err := c.volumes.APIVolume(b.volume.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	claim, err := c.volumes.APIClaim(b.claim.Namespace, b.claim.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if err := checkSameClaim(claim, b.claim); err != nil {
		return false, err
	}
	if isOlder(pv, c.assumed.Volume(pv.Name)) {
		return false, nil
	}
	if err := c.checkNodeAffinity(pv); err != nil {
		return false, err
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
	}
	if !isBound(claim) {
		return false, nil
	}
	// Another pod with this claim may have had a volume provisioned for it on another node.
	if claim.Spec.VolumeName != pv.Name {
		return false, fmt.Errorf("PVC %q is bound to pv %q instead of %q", claim.Name, claim.Spec.VolumeName, pv.Name)
	}
	return true, nil
}

// isVolumeProvisioned reports whether a volume was provisioned for a claim and bound to
// it.
func (c *bindingCheck) isVolumeProvisioned(planned *v1.PersistentVolumeClaim) (bool, error) {
	claim, err := c.volumes.APIClaim(planned.Namespace, planned.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	if err := checkSameClaim(claim, planned); err != nil {
		return false, err
	}
	if isOlder(claim, c.assumed.Claim(planned.Namespace, planned.Name)) {
		return false, nil
	}
	if claim.Annotations == nil {
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
	}
	if claim.Annotations[volume.AnnSelectedNode] != c.node {
		// The provisioner removes the annotation when it fails.
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	if claim.Spec.VolumeName == "" {
		return false, nil
	}
	pv, err := c.volumes.APIVolume(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return false, nil // The informer does not have it yet, or the claim will become Lost.
	} else if err != nil {
		return false, fmt.Errorf("failed to get pv %q from cache: %w", claim.Spec.VolumeName, err)
	}
	if err := c.checkNodeAffinity(pv); err != nil {
		return false, err
	}
	return isBound(claim), nil
}

// checkNodeAffinity returns an error if a volume is not available to the node, whose
// labels may have changed.
func (c *bindingCheck) checkNodeAffinity(pv *v1.PersistentVolume) error {
	translated, err := c.translateToCSI(pv, c.csi)
	if err != nil {
		return fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := volume.CheckNodeAffinity(translated, c.nodeObject.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, c.node, err)
	}
	return nil
}

// checkSameClaim returns an error if claim is another claim with the name of planned. A
// claim can be deleted while only a pod without a node uses it.
func checkSameClaim(claim, planned *v1.PersistentVolumeClaim) error {
	if claim.UID != planned.UID {
		return fmt.Errorf("PVC %q was re-created", planned.Name)
	}
	return nil
}

// isOlder reports whether an object is older than the one that was written. It returns
// false if the versions cannot be compared.
func isOlder[T metav1.Object](is, wrote T) bool {
	order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), wrote.GetResourceVersion())
	return err == nil && order < 0
}
