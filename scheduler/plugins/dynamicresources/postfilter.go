package dynamicresources

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// PostFilter deallocates one claim that was not available on a node and that no other pod
// uses, so that it can be allocated on another node. Where there is none, it deletes the
// claim for extended resources that an earlier attempt has left behind. kube-scheduler takes any such claim,
// in the order of a map; this takes the first. The write is made in the background, since
// the loop does not wait for the API server.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	data, err := getStateData(state)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if done := p.giveBack(data, pod); done != "" {
		return nil, fwk.NewStatus(fwk.Unschedulable, done)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// giveBack deallocates or deletes one claim of a pod, and says which of the two it did; "" if
// there is no such claim.
func (p *Plugin) giveBack(data *stateData, pod *v1.Pod) (done string) {
	for i := range data.claims {
		c := &data.claims[i]
		reserved := c.claim.Status.ReservedFor
		if c.isAllocated() && !c.extended && data.isUnavailable(i) && (len(reserved) == 0 || len(reserved) == 1 && reserved[0].UID == pod.UID) {
			p.devices.DeallocateClaim(c.claim)
			return "deallocation of ResourceClaim completed"
		}
	}
	if extended := data.extended(); extended != nil && extended.claim.Name != framework.ExtendedClaimName {
		p.devices.DeleteStaleClaim(extended.claim)
		return "deletion of ResourceClaim completed"
	}
	return ""
}
