package volumebinding

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Reserve assumes the plan for the node, so that no later pod finds the same volume
// free.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	data, err := getStateData(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if data == nil || len(data.claims.delayed) == 0 {
		return nil
	}
	podPlan := data.planFor(node)
	if podPlan == nil {
		return nil
	}
	if err := p.assumeVolumes(data, podPlan, node); err != nil {
		p.volumes.CountFailure("assume")
		return fwk.AsStatus(err)
	}
	data.needsBinding = true
	return nil
}

// assumeVolumes assumes the volumes and claims of the plan as they will be written.
func (p *Plugin) assumeVolumes(data *stateData, podPlan *plan, node string) error {
	var volumes []*v1.PersistentVolume
	for _, b := range podPlan.bindings {
		bound, _, err := volume.GetBindVolumeToClaim(b.volume, b.claim)
		if err != nil {
			return err
		}
		volumes = append(volumes, bound)
	}
	var claims []*v1.PersistentVolumeClaim
	for _, toProvision := range podPlan.provisions {
		claim := toProvision.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, node)
		claims = append(claims, claim)
	}
	hold, err := p.volumes.Assume(volumes, claims)
	if err != nil {
		return err
	}
	data.assumed = hold
	return nil
}

// Unreserve releases what is assumed and was not written.
func (p *Plugin) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	if data, err := getStateData(state); err == nil && data != nil && data.assumed != nil {
		data.assumed.Release(framework.MayBeSeen(state))
	}
}
