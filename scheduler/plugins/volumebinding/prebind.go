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

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// PreBindPreFlight says whether there is anything to bind.
func (*Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	noted, err := getStateData(state)
	switch {
	case err != nil:
		return result, fwk.AsStatus(err)
	case noted == nil || !noted.needsBinding:
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes what Reserve assumed, and waits until the controller has bound
// each claim. An error brings the pod back: it is tried anew.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	noted, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if noted == nil || !noted.needsBinding {
		return nil
	}
	if err := p.bindVolumes(ctx, noted, pod, node); err != nil {
		p.volumes.CountFailure("bind")
		return fwk.AsStatus(err)
	}
	return nil
}

func (p *Plugin) bindVolumes(ctx context.Context, noted *stateData, pod *v1.Pod, node string) error {
	if err := noted.assumed.Write(ctx); err != nil {
		return err
	}
	c := &bindingCheck{Plugin: p, assumed: noted.assumed, plan: noted.planFor(node), pod: pod, node: node}
	if err := p.volumes.Await(ctx, p.timeout, noted.claims.delayed, c.allBound); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

// check looks at what became of a plan. It reads what the API server said last,
// and not what is assumed: the loop may assume more meanwhile.
type bindingCheck struct {
	*Plugin
	assumed framework.VolumeHold
	plan    *plan
	pod     *v1.Pod
	node    string

	nodeObject *v1.Node
	csi        *storagev1.CSINode
}

// done says whether all claims are bound; the error is that they cannot be, or
// not for this node.
func (c *bindingCheck) allBound() (bool, error) {
	var err error
	if c.nodeObject, err = c.nodes.Get(c.node); err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", c.node, err)
	}
	c.csi = c.csiNode(c.node)
	switch pod, err := c.pods.Pods(c.pod.Namespace).Get(c.pod.Name); {
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	case err == nil && pod.UID != c.pod.UID && !fault.PodComparedByName:
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

// bound says whether a claim is bound to the volume that was chosen for it.
func (c *bindingCheck) isVolumeBound(b binding) (bool, error) {
	chosen, err := c.volumes.APIVolume(b.volume.Name)
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
	if isOlder(chosen, c.assumed.Volume(chosen.Name)) {
		return false, nil
	}
	if err := c.checkNodeAffinity(chosen); err != nil {
		return false, err
	}
	if chosen.Spec.ClaimRef == nil || chosen.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", chosen.Name)
	}
	return isBound(claim), nil
}

// provisioned says whether a volume was made for a claim, and bound to it.
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
		// Who provisions takes the annotation away when it fails.
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	if claim.Spec.VolumeName == "" {
		return false, nil
	}
	made, err := c.volumes.APIVolume(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return false, nil // It was not heard of yet, or the claim will be lost.
	} else if err != nil {
		return false, fmt.Errorf("failed to get pv %q from cache: %w", claim.Spec.VolumeName, err)
	}
	if err := c.checkNodeAffinity(made); err != nil {
		return false, err
	}
	return isBound(claim), nil
}

// suits says why a volume cannot be used on the node, whose labels may have
// changed; nil where it can.
func (c *bindingCheck) checkNodeAffinity(of *v1.PersistentVolume) error {
	translated, err := c.translateToCSI(of, c.csi)
	if err != nil {
		return fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := volume.CheckNodeAffinity(translated, c.nodeObject.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", of.Name, c.node, err)
	}
	return nil
}

// same is an error where a claim is another one under the name of planned. A claim
// may go while a pod without a node uses it.
func checkSameClaim(claim, planned *v1.PersistentVolumeClaim) error {
	if claim.UID != planned.UID {
		return fmt.Errorf("PVC %q was re-created", planned.Name)
	}
	return nil
}

// older says whether an object is older than what was written. Versions that
// cannot be compared are not.
func isOlder[T metav1.Object](is, wrote T) bool {
	order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), wrote.GetResourceVersion())
	return err == nil && order < 0
}
