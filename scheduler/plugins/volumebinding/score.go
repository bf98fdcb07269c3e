package volumebinding

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreScore skips pods without claims, whom every node suits alike.
func (*Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	noted, err := getStateData(state)
	switch {
	case err != nil:
		return fwk.AsStatus(err)
	case noted == nil:
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score rates how much of the storage on a node the pod would use, by the shape:
// of volumes that it would be bound to or, where there are none, of what is left
// to make volumes of.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	noted, err := getStateData(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if noted == nil {
		return 0, nil
	}
	made := noted.planFor(node.Node().Name)
	if made == nil {
		return 0, nil
	}
	return p.scoreUsage(made.usage()), nil
}

// ScoreExtensions is nil: scores need not be normalised.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// use is bytes of one class.
type usage struct{ requested, capacity int64 }

// use sums up what a plan uses, by class.
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
		// All of a class are made of the same store. One that says how large a
		// volume may be need not say how much it has.
		class, offered := volume.GetPersistentVolumeClaimClass(p.claim), int64(0)
		if p.capacity.Capacity != nil {
			offered = p.capacity.Capacity.Value()
		}
		sums[class] = usage{sums[class].requested + requestedStorage(p.claim).Value(), offered}
	}
	return sums
}

// rate is the mean over the classes, rounded.
func (p *Plugin) scoreUsage(by map[string]usage) int64 {
	if len(by) == 0 {
		return 0
	}
	var sum int64
	for _, u := range by {
		if u.capacity == 0 || u.requested > u.capacity {
			sum += p.shape.At(100)
		} else {
			sum += p.shape.At(u.requested * 100 / u.capacity)
		}
	}
	return int64(math.Round(float64(sum) / float64(len(by))))
}
