package podtopologyspread

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.FilterBatcher = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod. It reads the tallies that
// PreFilter asked for, which move with the snapshot.
func (p *Plugin) FilterForm(state fwk.CycleState, _ *v1.Pod, _ *framework.Columns) (framework.FilterForm, bool) {
	if state.GetSkipFilterPlugins().Has(Name) {
		return nil, true // pods like this one have no hard constraints
	}
	h, err := hardOf(state)
	if _, kept := p.counts.(framework.KeptCounts); err != nil || !kept {
		return nil, false
	}
	return &filterForm{hard: h, limits: make([]limit, len(h.constraints))}, true
}

type filterForm struct {
	*hard
	// limits go with constraints, and are good for one attempt.
	limits []limit
}

// limit is the largest number that a domain may have, beside the numbers by
// domain and the domains by slot.
type limit struct {
	of   []int32
	by   []int64
	most int64
}

const (
	refusedLabel framework.Refusal = 1 + iota
	refusedSkew
)

// Begin looks how matters stand.
func (f *filterForm) Begin() (skip, ok bool) {
	for i, tally := range f.tallies {
		numbers := tally.Counted()[0]
		if !numbers.Current() {
			return false, false
		}
		f.limits[i] = limit{
			of: numbers.Domains.Of(), by: numbers.By(),
			most: int64(f.constraints[i].maxSkew) - f.self[i] + f.least(i),
		}
	}
	return false, true
}

func (f *filterForm) Filter(slots []framework.Slot, refusals []framework.Refusal) {
	for i, slot := range slots {
		refusals[i] = f.judge(slot)
	}
}

func (f *filterForm) judge(slot framework.Slot) framework.Refusal {
	for i := range f.limits {
		l := &f.limits[i]
		domain, number := l.of[slot], int64(0)
		if domain == framework.NoDomain {
			return refusedLabel
		}
		if int(domain) < len(l.by) {
			number = l.by[domain]
		}
		if number > l.most {
			return refusedSkew
		}
	}
	return framework.Fits
}

func (*filterForm) Status(refusal framework.Refusal) *fwk.Status {
	if refusal == refusedLabel {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonLabel).WithPlugin(Name)
	}
	return fwk.NewStatus(fwk.Unschedulable, reasonSkew).WithPlugin(Name)
}
