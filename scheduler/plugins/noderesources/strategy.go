package noderesources

import (
	"math"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// strategy is how Fit scores. The formulas and their truncations are those of
// k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources.
type strategy struct {
	resources scoredResources
	// rate scores one resource, from what would be in use and what is offered.
	scoreResource func(used, offered int64) int64
	// shaped is true for RequestedToCapacityRatio, which leaves resources with
	// a score of zero out of the mean and rounds it.
	requestedToCapacityRatio bool
}

// newStrategy takes a strategy that ValidateFit found no fault with.
func newStrategy(spec *configv1.ScoringStrategy) strategy {
	s := strategy{resources: newScoredResources(spec.Resources, true)}
	switch spec.Type {
	case configv1.MostAllocated:
		s.scoreResource = mostAllocated
	case configv1.RequestedToCapacityRatio:
		s.scoreResource, s.requestedToCapacityRatio = ratioScorer(framework.NewShape(spec.RequestedToCapacityRatio.Shape)), true
	default:
		s.scoreResource = leastAllocated
	}
	return s
}

func (s *strategy) requestsOf(pod *v1.Pod) scoredRequests { return s.resources.requestsOf(pod) }

// score returns the weighted mean over the resources that count on node.
func (s *strategy) score(node fwk.NodeInfo, asked scoredRequests) int64 {
	mean := weightedMean{requestedToCapacityRatio: s.requestedToCapacityRatio}
	for i := range s.resources.specs {
		if offered, taken, counts := s.resources.nodeAmounts(node, i, asked[i]); counts {
			mean.add(s.scoreResource(taken+asked[i], offered), s.resources.specs[i].weight)
		}
	}
	return mean.value()
}

// weightedMean is that of ratings; shaped is a strategy's.
type weightedMean struct {
	sum, weights             int64
	requestedToCapacityRatio bool
}

// add adds a rating. A node may offer what nobody can, or less than nothing: its
// rating is its own affair and stays one.
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

// leastAllocated is the free share; 0 on a node that would be over its limit.
func leastAllocated(used, offered int64) int64 {
	if used > offered {
		return 0
	}
	return (offered - used) * fwk.MaxScore / offered
}

// mostAllocated is the used share. It can be over the whole, since containers
// without requests are scored with the defaults.
func mostAllocated(used, offered int64) int64 {
	return min(used, offered) * fwk.MaxScore / offered
}

// shapedBy is the shape's score at the used share.
func ratioScorer(shape framework.Shape) func(used, offered int64) int64 {
	return func(used, offered int64) int64 {
		if used > offered {
			return shape.At(100)
		}
		return shape.At(used * 100 / offered)
	}
}
