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

// podClaims are a pod's claims by what has to be done about them.
type podClaims struct {
	bound []*v1.PersistentVolumeClaim
	// delayed wait for their first consumer. Volumes that they may be bound to
	// are listed by class.
	delayed []*v1.PersistentVolumeClaim
	volumes map[string][]*v1.PersistentVolume
	// immediate are bound by the controller, which has not done so yet.
	immediate []*v1.PersistentVolumeClaim
}

// PreFilter sorts the pod's claims. A pod without any skips the plugin; one
// whose claim others have to do something about first fits nowhere.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	any, err := p.checkClaims(pod)
	switch {
	case err != nil:
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	case !any:
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

// PreFilterExtensions is nil: other pods do not matter.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// claimOf is the name of the claim behind a volume of the pod; "" where there
// is none. own says that the claim is made for the pod.
func claimName(pod *v1.Pod, of *v1.Volume) (name string, own bool) {
	switch {
	case of.PersistentVolumeClaim != nil:
		return of.PersistentVolumeClaim.ClaimName, false
	case of.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, of), true
	}
	return "", false
}

// usable says whether the pod has claims at all; the error is why one of them
// is of no use.
func (p *Plugin) checkClaims(pod *v1.Pod) (any bool, err error) {
	for i := range pod.Spec.Volumes {
		name, own := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		any = true
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		switch {
		case own && apierrors.IsNotFound(err):
			return any, fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case err != nil:
			return any, err
		case claim.Status.Phase == v1.ClaimLost:
			return any, fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return any, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
		}
		if own {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return any, err
			}
		}
	}
	return any, nil
}

// sort sorts the pod's claims.
func (p *Plugin) classifyClaims(pod *v1.Pod) (*podClaims, error) {
	sorted := &podClaims{volumes: map[string][]*v1.PersistentVolume{}}
	for i := range pod.Spec.Volumes {
		name, own := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		claim, err := p.volumes.Claim(pod.Namespace, name)
		if err != nil {
			return nil, fmt.Errorf("error getting PVC %q: %w", pod.Namespace+"/"+name, err)
		}
		if own {
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

// isBound says whether claim and volume know each other: the controller marks
// the claim last.
func isBound(claim *v1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}
