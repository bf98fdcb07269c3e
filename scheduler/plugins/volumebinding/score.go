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
	noted, err := noteOf(state)
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
	noted, err := noteOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if noted == nil {
		return 0, nil
	}
	made := noted.plan(node.Node().Name)
	if made == nil {
		return 0, nil
	}
	return p.rate(made.use()), nil
}

// ScoreExtensions is nil: scores need not be normalised.
func (*Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

// use is bytes of one class.
type use struct{ asked, offered int64 }

// use sums up what a plan uses, by class.
func (m *plan) use() map[string]use {
	sums := map[string]use{}
	for _, b := range m.bindings {
		class := b.volume.Spec.StorageClassName
		offered := b.volume.Spec.Capacity[v1.ResourceStorage]
		sum := sums[class]
		sums[class] = use{sum.asked + requested(b.claim).Value(), sum.offered + offered.Value()}
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
		sums[class] = use{sums[class].asked + requested(p.claim).Value(), offered}
	}
	return sums
}

// rate is the mean over the classes, rounded.
func (p *Plugin) rate(by map[string]use) int64 {
	if len(by) == 0 {
		return 0
	}
	var sum int64
	for _, u := range by {
		if u.offered == 0 || u.asked > u.offered {
			sum += p.shape.At(100)
		} else {
			sum += p.shape.At(u.asked * 100 / u.offered)
		}
	}
	return int64(math.Round(float64(sum) / float64(len(by))))
}
