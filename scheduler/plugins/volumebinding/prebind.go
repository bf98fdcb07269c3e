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
	noted, err := noteOf(state)
	switch {
	case err != nil:
		return result, fwk.AsStatus(err)
	case noted == nil || !noted.unbound:
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes what Reserve assumed, and waits until the controller has bound
// each claim. An error brings the pod back: it is tried anew.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	noted, err := noteOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if noted == nil || !noted.unbound {
		return nil
	}
	if err := p.bind(ctx, noted, pod, node); err != nil {
		p.volumes.Failed("bind")
		return fwk.AsStatus(err)
	}
	return nil
}

func (p *Plugin) bind(ctx context.Context, noted *note, pod *v1.Pod, node string) error {
	if err := noted.hold.Write(ctx); err != nil {
		return err
	}
	c := &check{Plugin: p, hold: noted.hold, made: noted.plan(node), pod: pod, node: node}
	if err := p.volumes.Await(ctx, p.timeout, noted.claims.delayed, c.done); err != nil {
		return fmt.Errorf("binding volumes: %w", err)
	}
	return nil
}

// check looks at what became of a plan. It reads what the API server said last,
// and not what is assumed: the loop may assume more meanwhile.
type check struct {
	*Plugin
	hold framework.VolumeHold
	made *plan
	pod  *v1.Pod
	node string

	on  *v1.Node
	csi *storagev1.CSINode
}

// done says whether all claims are bound; the error is that they cannot be, or
// not for this node.
func (c *check) done() (bool, error) {
	var err error
	if c.on, err = c.nodes.Get(c.node); err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", c.node, err)
	}
	c.csi = c.csiNode(c.node)
	switch pod, err := c.pods.Pods(c.pod.Namespace).Get(c.pod.Name); {
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	case err == nil && pod.UID != c.pod.UID && !fault.PodComparedByName:
		return false, fmt.Errorf("pod does not exist any more: pod %q was re-created", c.pod.Name)
	}
	for _, b := range c.made.bindings {
		if bound, err := c.bound(b); !bound || err != nil {
			return false, err
		}
	}
	for _, planned := range c.made.provisions {
		if provisioned, err := c.provisioned(planned.claim); !provisioned || err != nil {
			return false, err
		}
	}
	return true, nil
}

// bound says whether a claim is bound to the volume that was chosen for it.
func (c *check) bound(b binding) (bool, error) {
	chosen, err := c.volumes.WrittenVolume(b.volume.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	claim, err := c.volumes.WrittenClaim(b.claim.Namespace, b.claim.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if err := same(claim, b.claim); err != nil {
		return false, err
	}
	if older(chosen, c.hold.Volume(chosen.Name)) {
		return false, nil
	}
	if err := c.suits(chosen); err != nil {
		return false, err
	}
	if chosen.Spec.ClaimRef == nil || chosen.Spec.ClaimRef.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", chosen.Name)
	}
	return isBound(claim), nil
}

// provisioned says whether a volume was made for a claim, and bound to it.
func (c *check) provisioned(planned *v1.PersistentVolumeClaim) (bool, error) {
	claim, err := c.volumes.WrittenClaim(planned.Namespace, planned.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	if err := same(claim, planned); err != nil {
		return false, err
	}
	if older(claim, c.hold.Claim(planned.Namespace, planned.Name)) {
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
	made, err := c.volumes.WrittenVolume(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return false, nil // It was not heard of yet, or the claim will be lost.
	} else if err != nil {
		return false, fmt.Errorf("failed to get pv %q from cache: %w", claim.Spec.VolumeName, err)
	}
	if err := c.suits(made); err != nil {
		return false, err
	}
	return isBound(claim), nil
}

// suits says why a volume cannot be used on the node, whose labels may have
// changed; nil where it can.
func (c *check) suits(of *v1.PersistentVolume) error {
	translated, err := c.translated(of, c.csi)
	if err != nil {
		return fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := volume.CheckNodeAffinity(translated, c.on.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", of.Name, c.node, err)
	}
	return nil
}

// same is an error where a claim is another one under the name of planned. A claim
// may go while a pod without a node uses it.
func same(claim, planned *v1.PersistentVolumeClaim) error {
	if claim.UID != planned.UID {
		return fmt.Errorf("PVC %q was re-created", planned.Name)
	}
	return nil
}

// older says whether an object is older than what was written. Versions that
// cannot be compared are not.
func older[T metav1.Object](is, wrote T) bool {
	order, err := resourceversion.CompareResourceVersion(is.GetResourceVersion(), wrote.GetResourceVersion())
	return err == nil && order < 0
}
