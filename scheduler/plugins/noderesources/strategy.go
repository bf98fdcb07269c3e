package noderesources

import (
	"context"
	"math"

	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// strategy is the scoring strategy of Fit. The formulas and their truncations are those
// of k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources.
type strategy struct {
	resources scoredResources
	// scoreResource scores one resource by what would be used and what is allocatable.
	scoreResource func(used, allocatable int64) int64
	// leastAllocated is true for the strategy of this name.
	leastAllocated bool
	// requestedToCapacityRatio is true for the strategy of this name, which rounds the
	// mean and leaves resources with a score of 0 out of it.
	requestedToCapacityRatio bool
}

// newStrategy returns a strategy that ValidateFit accepts.
func newStrategy(spec *configv1.ScoringStrategy, classes deviceClasses) strategy {
	s := strategy{resources: newScoredResources(spec.Resources, true, classes)}
	switch spec.Type {
	case configv1.MostAllocated:
		s.scoreResource = mostAllocated
	case configv1.RequestedToCapacityRatio:
		s.scoreResource, s.requestedToCapacityRatio = ratioScorer(framework.NewShape(spec.RequestedToCapacityRatio.Shape)), true
	default:
		s.scoreResource, s.leastAllocated = leastAllocated, true
	}
	return s
}

// score returns the weighted mean of the scores of the resources that count on node.
func (s *strategy) score(ctx context.Context, node fwk.NodeInfo, data *scoreState) int64 {
	mean := weightedMean{requestedToCapacityRatio: s.requestedToCapacityRatio}
	for i := range s.resources.specs {
		if allocatable, requested, counts := s.resources.nodeAmounts(ctx, node, i, data); counts {
			mean.add(s.scoreResource(requested+data.requests[i], allocatable), s.resources.specs[i].weight)
		}
	}
	return mean.value()
}

// weightedMean is the weighted mean of the scores of resources.
type weightedMean struct {
	sum, weights             int64
	requestedToCapacityRatio bool
}

// add adds the score of one resource, limited to the range from 0 to 100: a node may
// report impossible amounts, even negative ones.
func (m *weightedMean) add(rating, weight int64) {
	rating = min(max(rating, 0), fwk.MaxScore)
	if m.requestedToCapacityRatio && rating <= 0 {
		return
	}
	m.sum += rating * weight
	m.weights += weight
}

func (m *weightedMean) value() int64 {
	if m.weights == 0 {
		return 0
	}
	if m.requestedToCapacityRatio {
		return m.rounded()
	}
	return m.sum / m.weights
}

func (m *weightedMean) rounded() int64 {
	return int64(math.Round(float64(m.sum) / float64(m.weights)))
}

// leastAllocated scores the free fraction; 0 if more would be used than is allocatable.
func leastAllocated(used, allocatable int64) int64 {
	if used > allocatable {
		return 0
	}
	return (allocatable - used) * fwk.MaxScore / allocatable
}

// mostAllocated scores the used fraction. used may exceed allocatable, since containers
// without requests are scored with default requests.
func mostAllocated(used, allocatable int64) int64 {
	return min(used, allocatable) * fwk.MaxScore / allocatable
}

// ratioScorer scores the utilization by shape.
func ratioScorer(shape framework.Shape) func(used, allocatable int64) int64 {
	return func(used, allocatable int64) int64 {
		if used > allocatable {
			return shape.At(100)
		}
		return shape.At(used * 100 / allocatable)
	}
}
