package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchFilterPlugin = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod. It reads the tallies that
// PreFilter asked for, which move with the snapshot.
func (p *Plugin) BatchFilter(state fwk.CycleState, _ *v1.Pod, _ *framework.Columns) (framework.BatchFilter, bool) {
	r, err := getPreFilterState(state)
	if _, kept := p.counts.(framework.IncrementalCounts); err != nil || !kept {
		return nil, false
	}
	return &batchFilter{preFilterState: r}, true
}

type batchFilter struct {
	*preFilterState
	// What follows is good for one attempt: the numbers by domain of near, of
	// against and of the guards, and whether there is a wanted pod anywhere.
	affinity, antiAffinity, existingAntiAffinity []domainCounts
	anyAffinityPod                               bool
}

// byDomain is numbers by domain, and the domains by slot.
type domainCounts struct {
	domainBySlot  []int32
	countByDomain []int64
	weight        int64
}

// at returns the domain of the node in slot and its number.
func (b *domainCounts) at(slot framework.Slot) (domain int32, number int64) {
	domain = b.domainBySlot[slot]
	if int(domain) < len(b.countByDomain) {
		number = b.countByDomain[domain]
	}
	return domain, number
}

const (
	failedAffinity framework.RejectionCode = 1 + iota
	failedAntiAffinity
	failedExistingAntiAffinity
)

// Begin takes in terms that came since, and skips Filter when nobody requires
// anything.
func (f *batchFilter) Begin() (skip, ok bool) {
	if !f.existingAntiAffinityCounts.Update() {
		return false, false
	}
	f.affinity, f.antiAffinity, f.existingAntiAffinity = f.affinity[:0], f.antiAffinity[:0], f.existingAntiAffinity[:0]
	f.anyAffinityPod, ok = false, true
	for _, tally := range f.affinityCounts {
		f.affinity, ok = appendDomainCounts(f.affinity, tally, 1, ok)
		f.anyAffinityPod = f.anyAffinityPod || !tally.AllZero()
	}
	for _, tally := range f.antiAffinityCounts {
		f.antiAffinity, ok = appendDomainCounts(f.antiAffinity, tally, 1, ok)
	}
	listed := false
	for _, tally := range f.existingAntiAffinityCounts.ByTopologyKey {
		if tally.HasListed() {
			f.existingAntiAffinity, ok = appendDomainCounts(f.existingAntiAffinity, tally, 1, ok)
			listed = true
		}
	}
	return !listed && len(f.affinityKeys) == 0 && len(f.antiAffinityTerms) == 0, ok
}

// appendCounted appends the parts of a tally, times factor, and ands to ok
// whether they are current.
func appendDomainCounts(list []domainCounts, tally *framework.DomainSums, factor int64, ok bool) ([]domainCounts, bool) {
	for _, part := range tally.Terms() {
		ok = ok && part.Current()
		list = append(list, domainCounts{part.Domains.BySlot(), part.Values(), factor * part.Factor})
	}
	return list, ok
}

func (f *batchFilter) Filter(slots []framework.Slot, refusals []framework.RejectionCode) {
	for i, slot := range slots {
		refusals[i] = f.evaluate(slot)
	}
}

func (f *batchFilter) evaluate(slot framework.Slot) framework.RejectionCode {
	near := true
	for i := range f.affinity {
		domain, number := f.affinity[i].at(slot)
		if domain == framework.NoDomain {
			return failedAffinity
		}
		near = near && number > 0
	}
	if !near && (f.anyAffinityPod || !f.selfMatch) {
		return failedAffinity
	}
	for i := range f.antiAffinity {
		if domain, number := f.antiAffinity[i].at(slot); domain != framework.NoDomain && number > 0 {
			return failedAntiAffinity
		}
	}
	for i := range f.existingAntiAffinity {
		if domain, number := f.existingAntiAffinity[i].at(slot); domain != framework.NoDomain && number > 0 {
			return failedExistingAntiAffinity
		}
	}
	return framework.NotRejected
}

func (*batchFilter) Status(refusal framework.RejectionCode) *fwk.Status {
	switch refusal {
	case failedAffinity:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAffinity).WithPlugin(Name)
	case failedAntiAffinity:
		return fwk.NewStatus(fwk.Unschedulable, reasonAntiAffinity).WithPlugin(Name)
	default:
		return fwk.NewStatus(fwk.Unschedulable, reasonExistingAntiAffinity).WithPlugin(Name)
	}
}
