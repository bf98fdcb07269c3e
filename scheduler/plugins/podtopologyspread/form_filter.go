package podtopologyspread

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchFilterPlugin = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod. It reads the tallies that
// PreFilter asked for, which move with the snapshot.
func (p *Plugin) BatchFilter(state fwk.CycleState, _ *v1.Pod, _ *framework.Columns) (framework.BatchFilter, bool) {
	if state.GetSkipFilterPlugins().Has(Name) {
		return nil, true // pods like this one have no hard constraints
	}
	h, err := getPreFilterState(state)
	if _, kept := p.counts.(framework.IncrementalCounts); err != nil || !kept {
		return nil, false
	}
	return &batchFilter{preFilterState: h, limits: make([]domainLimit, len(h.constraints))}, true
}

type batchFilter struct {
	*preFilterState
	// limits go with constraints, and are good for one attempt.
	limits []domainLimit
}

// limit is the largest number that a domain may have, beside the numbers by
// domain and the domains by slot.
type domainLimit struct {
	domainBySlot  []int32
	countByDomain []int64
	maxCount      int64
}

const (
	missingLabel framework.RejectionCode = 1 + iota
	exceedsMaxSkew
)

// Begin looks how matters stand.
func (f *batchFilter) Begin() (skip, ok bool) {
	for i, tally := range f.counts {
		numbers := tally.Terms()[0]
		if !numbers.Current() {
			return false, false
		}
		f.limits[i] = domainLimit{
			domainBySlot: numbers.Domains.BySlot(), countByDomain: numbers.Values(),
			maxCount: int64(f.constraints[i].maxSkew) - f.selfMatchNum[i] + f.minMatchNum(i),
		}
	}
	return false, true
}

func (f *batchFilter) Filter(slots []framework.Slot, refusals []framework.RejectionCode) {
	for i, slot := range slots {
		refusals[i] = f.evaluate(slot)
	}
}

func (f *batchFilter) evaluate(slot framework.Slot) framework.RejectionCode {
	for i := range f.limits {
		l := &f.limits[i]
		domain, number := l.domainBySlot[slot], int64(0)
		if domain == framework.NoDomain {
			return missingLabel
		}
		if int(domain) < len(l.countByDomain) {
			number = l.countByDomain[domain]
		}
		if number > l.maxCount {
			return exceedsMaxSkew
		}
	}
	return framework.NotRejected
}

func (*batchFilter) Status(refusal framework.RejectionCode) *fwk.Status {
	if refusal == missingLabel {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonLabel).WithPlugin(Name)
	}
	return fwk.NewStatus(fwk.Unschedulable, reasonSkew).WithPlugin(Name)
}
