package dynamicresources

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Score sums up, over all requests with alternatives, 8 minus the index of the alternative
// that was allocated on the node.
func (p *Plugin) Score(ctx context.Context, state fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := getStateData(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if len(data.claims) == 0 {
		return 0, nil
	}
	if !data.hasAlternatives() {
		return 0, nil
	}
	on, found, err := data.resultsOn(ctx, nodeInfo.Node().Name)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if !found {
		return 0, nil
	}
	var score int64
	results := on.results
	for i := range data.claims {
		c := &data.claims[i]
		if c.extended {
			continue // it has no alternatives
		}
		allocation := c.decided()
		if allocation == nil {
			if len(results) == 0 {
				return 0, fwk.AsStatus(fmt.Errorf("number of allocations is smaller than number of claims needing allocation"))
			}
			allocation, results = &results[0], results[1:]
		}
		score += scoreAlternatives(c.claim, allocation)
	}
	return score, nil
}

// hasAlternatives reports whether a request has alternatives.
func (s *stateData) hasAlternatives() bool {
	for i := range s.claims {
		if slices.ContainsFunc(s.claims[i].claim.Spec.Devices.Requests, func(r resourceapi.DeviceRequest) bool { return len(r.FirstAvailable) > 0 }) {
			return true
		}
	}
	return false
}

func scoreAlternatives(claim *resourceapi.ResourceClaim, allocation *resourceapi.AllocationResult) (score int64) {
	chosen := map[string]bool{}
	for i := range allocation.Devices.Results {
		chosen[allocation.Devices.Results[i].Request] = true
	}
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		for j := range request.FirstAvailable {
			if chosen[resourceclaim.CreateSubRequestRef(request.Name, request.FirstAvailable[j].Name)] {
				score += int64(resourceapi.FirstAvailableDeviceRequestMaxSize - j)
			}
		}
	}
	return score
}

// ScoreExtensions returns p.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales the scores so that the highest is 100.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.DefaultNormalizeScore(scores, false)
	return nil
}
