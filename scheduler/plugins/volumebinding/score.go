package volumebinding

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore skips Score for pods without claims, which score all nodes alike.
func (*Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	data, err := getStateData(state)
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case data == nil:
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score scores by the shape how much of the node's storage the pod would use: of the
// volumes that it would be bound to or, if there are none, of the storage capacity for
// provisioning.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := getStateData(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if data == nil {
		return 0, nil
	}
	podPlan := data.planFor(node.Node().Name)
	if podPlan == nil {
		return 0, nil
	}
	return p.scoreUsage(podPlan.usage()), nil
}

// ScoreExtensions returns nil: scores are from 0 to 100 without normalizing.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// usage is requested storage and its capacity, in bytes, of one class.
type usage struct{ requested, capacity int64 }

// usage sums up the storage that a plan uses, by class.
func (m *plan) usage() map[string]usage {
	sums := map[string]usage{}
	for _, b := range m.bindings {
		class := b.volume.Spec.StorageClassName
		offered := b.volume.Spec.Capacity[v1.ResourceStorage]
		sum := sums[class]
		sums[class] = usage{sum.requested + requestedStorage(b.claim).Value(), sum.capacity + offered.Value()}
	}
	if len(m.bindings) > 0 {
		return sums
	}
	for _, p := range m.provisions {
		if p.capacity == nil {
			continue
		}
		// All claims of a class use the same capacity. A capacity with a maximum
		// volume size need not have a capacity value.
		class, offered := volume.GetPersistentVolumeClaimClass(p.claim), int64(0)
		if p.capacity.Capacity != nil {
			offered = p.capacity.Capacity.Value()
		}
		sums[class] = usage{sums[class].requested + requestedStorage(p.claim).Value(), offered}
	}
	return sums
}

// scoreUsage returns the mean score of the classes, rounded.
func (p *Plugin) scoreUsage(usageByClass map[string]usage) int64 {
	if len(usageByClass) == 0 {
		return 0
	}
	var sum int64
	for _, u := range usageByClass {
		if u.capacity == 0 || u.requested > u.capacity {
			sum += p.shape.At(100)
		} else {
			sum += p.shape.At(u.requested * 100 / u.capacity)
		}
	}
	return int64(math.Round(float64(sum) / float64(len(usageByClass))))
}
