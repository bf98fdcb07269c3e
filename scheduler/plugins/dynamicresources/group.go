package dynamicresources

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// groupData is what the pods of a group know of each other in the group's cycle, in which one
// goroutine decides about them.
type groupData struct {
	// inFlight are the claims that were allocated in this cycle, by UID: only pods of this
	// cycle share an allocation that was not written.
	inFlight sets.Set[types.UID]
	// pods has the state of each pod that PreFilter has seen.
	pods map[types.UID]*stateData
}

// Clone returns the value itself.
func (g *groupData) Clone() fwk.StateData { return g }

// groupDataOf returns the data of the group whose cycle decides the pod, which it makes for the
// first one; nil where no group's cycle does.
func groupDataOf(state fwk.CycleState) *groupData {
	group := state.GetPodGroupSchedulingCycle()
	if group == nil {
		return nil
	}
	if known, err := group.Read(stateKey); err == nil {
		data, _ := known.(*groupData)
		return data
	}
	data := &groupData{inFlight: sets.New[types.UID](), pods: map[types.UID]*stateData{}}
	group.Write(stateKey, data)
	return data
}

// PodGroupPostFilter does for each pod of a group what PostFilter does for a pod. It returns an
// error where PreFilter has seen none of them, as in kube-scheduler.
func (p *Plugin) PodGroupPostFilter(_ context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	known, err := state.Read(stateKey)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	data, _ := known.(*groupData)
	for _, pod := range group.GetUnscheduledPods() {
		if claims := data.pods[pod.UID]; claims != nil {
			p.giveBack(claims, pod)
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "deallocation and deletion of ResourceClaims completed")
}
