package volumebinding

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
)

// podClaims are the claims of a pod, by how they are bound.
type podClaims struct {
	bound []*v1.PersistentVolumeClaim
	// delayed claims wait for their first consumer. volumes are the volumes that they
	// may be bound to, by class.
	delayed []*v1.PersistentVolumeClaim
	volumes map[string][]*v1.PersistentVolume
	// immediate claims are bound by the volume controller, and are not bound yet.
	immediate []*v1.PersistentVolumeClaim
}

// PreFilter classifies the pod's claims. A pod without claims skips the plugin. A pod
// fits on no node while a claim is missing, lost, being deleted, or unbound with
// immediate binding.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	hasClaims, err := p.checkClaims(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case !hasClaims:
		state.Write(stateKey, (*stateData)(nil))
		return nil, fwk.NewStatus(fwk.Skip)
	}
	claims, err := p.classifyClaims(pod)
	switch {
	case err != nil:
		return nil, fwk.AsStatus(err)
	case len(claims.immediate) > 0:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonImmediate)
	}
	state.Write(stateKey, &stateData{claims: claims, planByNode: map[string]*plan{}})
	return nil, nil
}

// PreFilterExtensions returns nil: the verdict does not depend on other pods.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// claimName returns the name of the claim behind a volume of the pod, "" if there is
// none. isEphemeral is true for the claim of an ephemeral volume, which is created for
// the pod.
func claimName(pod *v1.Pod, podVolume *v1.Volume) (name string, isEphemeral bool) {
	switch {
	case podVolume.PersistentVolumeClaim != nil:
		return podVolume.PersistentVolumeClaim.ClaimName, false
	case podVolume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, podVolume), true
	}
	return "", false
}

// checkClaims reports whether the pod has claims. It returns an error if a claim cannot
// be used.
func (p *Plugin) checkClaims(pod *v1.Pod) (hasClaims bool, err error) {
	for i := range pod.Spec.Volumes {
		name, isEphemeral := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		hasClaims = true
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		switch {
		case isEphemeral && apierrors.IsNotFound(err):
			return hasClaims, fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case err != nil:
			return hasClaims, err
		case claim.Status.Phase == v1.ClaimLost:
			return hasClaims, fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return hasClaims, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
		}
		if isEphemeral {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return hasClaims, err
			}
		}
	}
	return hasClaims, nil
}

// classifyClaims sorts the pod's claims by how they are bound.
func (p *Plugin) classifyClaims(pod *v1.Pod) (*podClaims, error) {
	sorted := &podClaims{volumes: map[string][]*v1.PersistentVolume{}}
	for i := range pod.Spec.Volumes {
		name, isEphemeral := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := p.volumes.Claim(pod.Namespace, name)
		if err != nil {
			return nil, fmt.Errorf("error getting PVC %q: %w", pod.Namespace+"/"+name, err)
		}
		if isEphemeral {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return nil, err
			}
		}
		if isBound(claim) {
			sorted.bound = append(sorted.bound, claim)
			continue
		}
		delayed, err := volume.IsDelayBindingMode(claim, p.classes)
		switch {
		case err != nil:
			return nil, err
		case delayed && claim.Spec.VolumeName == "":
			sorted.delayed = append(sorted.delayed, claim)
		default: // It names its volume, or the controller chooses one.
			sorted.immediate = append(sorted.immediate, claim)
		}
	}
	for _, claim := range sorted.delayed {
		class := volume.GetPersistentVolumeClaimClass(claim)
		if _, listed := sorted.volumes[class]; listed {
			continue
		}
		volumes, err := p.volumes.VolumesOfClass(class)
		if err != nil {
			return nil, err
		}
		sorted.volumes[class] = volumes
	}
	return sorted, nil
}

// isBound reports whether the claim is bound completely: the volume controller sets the
// annotation last.
func isBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}
