package volumebinding

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve assumes what Filter planned for the node, so that nobody after this
// pod finds the same volume free.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	noted, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if noted == nil || len(noted.claims.delayed) == 0 {
		return nil
	}
	made := noted.planFor(node)
	if made == nil {
		return nil
	}
	if err := p.assumeVolumes(noted, made, node); err != nil {
		p.volumes.CountFailure("assume")
		return fwk.AsStatus(err)
	}
	noted.needsBinding = true
	return nil
}

// assume has the plan's volumes and claims say what they will say.
func (p *Plugin) assumeVolumes(noted *stateData, made *plan, node string) error {
	var volumes []*v1.PersistentVolume
	for _, b := range made.bindings {
		bound, _, err := volume.GetBindVolumeToClaim(b.volume, b.claim)
		if err != nil {
			return err
		}
		volumes = append(volumes, bound)
	}
	var claims []*v1.PersistentVolumeClaim
	for _, provided := range made.provisions {
		claim := provided.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, node)
		claims = append(claims, claim)
	}
	hold, err := p.volumes.Assume(volumes, claims)
	if err != nil {
		return err
	}
	noted.assumed = hold
	return nil
}

// Unreserve takes back what is assumed and was not written.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	if noted, err := getStateData(state); err == nil && noted != nil && noted.assumed != nil {
		noted.assumed.Release()
	}
}
