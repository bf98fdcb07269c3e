package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

var _ podclass.BatchFilterPlugin = (*Plugin)(nil)

// BatchFilter returns the batch form of Filter for pods of the same class as pod. It
// reads the counts that PreFilter created, which change with the snapshot.
func (p *Plugin) BatchFilter(state fwk.CycleState, _ *v1.Pod, _ *counts.Columns) (podclass.BatchFilter, bool) {
	r, err := getPreFilterState(state)
	if _, incremental := p.counts.(counts.Incremental); err != nil || !incremental {
		return nil, false
	}
	return &batchFilter{preFilterState: r}, true
}

// batchFilter is the batch form of Filter.
type batchFilter struct {
	*preFilterState
	// The fields below are valid for one attempt: the counts by domain of the pod's
	// affinity, of its anti-affinity and of the anti-affinity of placed pods, and
	// whether any pod satisfies the affinity.
	affinity, antiAffinity, existingAntiAffinity []domainCounts
	anyAffinityPod                               bool
}

// domainCounts is a count by domain, with the domain of each slot.
type domainCounts struct {
	domainBySlot  []int32
	countByDomain []int64
	weight        int64
}

// at returns the domain of the node in slot, and its count.
func (b *domainCounts) at(slot counts.Slot) (domain int32, count int64) {
	domain = b.domainBySlot[slot]
	if int(domain) < len(b.countByDomain) {
		count = b.countByDomain[domain]
	}
	return domain, count
}

// The reasons for rejecting a node.
const (
	failedAffinity podclass.RejectionCode = 1 + iota
	failedAntiAffinity
	failedExistingAntiAffinity
)

// Begin reads the current counts and the terms that were added since the last attempt.
// It skips Filter when there are no required terms. It returns ok false when the counts
// are no longer maintained.
func (f *batchFilter) Begin() (skip, ok bool) {
	if !f.existingAntiAffinityCounts.Update() {
		return false, false
	}
	f.affinity, f.antiAffinity, f.existingAntiAffinity = f.affinity[:0], f.antiAffinity[:0], f.existingAntiAffinity[:0]
	f.anyAffinityPod, ok = false, true
	for _, sum := range f.affinityCounts {
		f.affinity, ok = appendDomainCounts(f.affinity, sum, 1, ok)
		f.anyAffinityPod = f.anyAffinityPod || !sum.AllZero()
	}
	for _, sum := range f.antiAffinityCounts {
		f.antiAffinity, ok = appendDomainCounts(f.antiAffinity, sum, 1, ok)
	}
	listed := false
	for _, sum := range f.existingAntiAffinityCounts.ByTopologyKey {
		if sum.HasListed() {
			f.existingAntiAffinity, ok = appendDomainCounts(f.existingAntiAffinity, sum, 1, ok)
			listed = true
		}
	}
	return !listed && len(f.affinityKeys) == 0 && len(f.antiAffinityTerms) == 0, ok
}

// appendDomainCounts appends the terms of sum, multiplied by factor. It returns false
// if ok is false or some count is no longer maintained.
func appendDomainCounts(list []domainCounts, sum *counts.DomainSums, factor int64, ok bool) ([]domainCounts, bool) {
	for _, part := range sum.Terms() {
		ok = ok && part.Current()
		list = append(list, domainCounts{part.Domains.BySlot(), part.Values(), factor * part.Factor})
	}
	return list, ok
}

// Filter writes the verdict of each slot to codes.
func (f *batchFilter) Filter(slots []counts.Slot, codes []podclass.RejectionCode) {
	for i, slot := range slots {
		codes[i] = f.evaluate(slot)
	}
}

// evaluate returns the verdict about one node, in the order of the reference
// implementation.
func (f *batchFilter) evaluate(slot counts.Slot) podclass.RejectionCode {
	allSatisfied := true
	for i := range f.affinity {
		domain, count := f.affinity[i].at(slot)
		if domain == counts.NoDomain {
			return failedAffinity
		}
		allSatisfied = allSatisfied && count > 0
	}
	if !allSatisfied && (f.anyAffinityPod || !f.selfMatch) {
		return failedAffinity
	}
	for i := range f.antiAffinity {
		if domain, count := f.antiAffinity[i].at(slot); domain != counts.NoDomain && count > 0 {
			return failedAntiAffinity
		}
	}
	for i := range f.existingAntiAffinity {
		if domain, count := f.existingAntiAffinity[i].at(slot); domain != counts.NoDomain && count > 0 {
			return failedExistingAntiAffinity
		}
	}
	return podclass.NotRejected
}

func (*batchFilter) Status(code podclass.RejectionCode) *fwk.Status {
	switch code {
	case failedAffinity:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAffinity).WithPlugin(Name)
	case failedAntiAffinity:
		return fwk.NewStatus(fwk.Unschedulable, reasonAntiAffinity).WithPlugin(Name)
	default:
		return fwk.NewStatus(fwk.Unschedulable, reasonExistingAntiAffinity).WithPlugin(Name)
	}
}
