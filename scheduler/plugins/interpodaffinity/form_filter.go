package interpodaffinity

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.FilterBatcher = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod. It reads the tallies that
// PreFilter asked for, which move with the snapshot.
func (p *Plugin) FilterForm(state fwk.CycleState, _ *v1.Pod, _ *framework.Columns) (framework.FilterForm, bool) {
	r, err := requiredOf(state)
	if _, kept := p.counts.(framework.KeptCounts); err != nil || !kept {
		return nil, false
	}
	return &filterForm{required: r}, true
}

type filterForm struct {
	*required
	// What follows is good for one attempt: the numbers by domain of near, of
	// against and of the guards, and whether there is a wanted pod anywhere.
	nearBy, againstBy, guardsBy []byDomain
	anywhere                    bool
}

// byDomain is numbers by domain, and the domains by slot.
type byDomain struct {
	of     []int32
	by     []int64
	factor int64
}

// at returns the domain of the node in slot and its number.
func (b *byDomain) at(slot framework.Slot) (domain int32, number int64) {
	domain = b.of[slot]
	if int(domain) < len(b.by) {
		number = b.by[domain]
	}
	return domain, number
}

const (
	refusedAffinity framework.Refusal = 1 + iota
	refusedAnti
	refusedExisting
)

// Begin takes in terms that came since, and skips Filter when nobody requires
// anything.
func (f *filterForm) Begin() (skip, ok bool) {
	if !f.guards.Update() {
		return false, false
	}
	f.nearBy, f.againstBy, f.guardsBy = f.nearBy[:0], f.againstBy[:0], f.guardsBy[:0]
	f.anywhere, ok = false, true
	for _, tally := range f.near {
		f.nearBy, ok = appendCounted(f.nearBy, tally, 1, ok)
		f.anywhere = f.anywhere || !tally.Zero()
	}
	for _, tally := range f.against {
		f.againstBy, ok = appendCounted(f.againstBy, tally, 1, ok)
	}
	listed := false
	for _, tally := range f.guards.By {
		if tally.Listed() {
			f.guardsBy, ok = appendCounted(f.guardsBy, tally, 1, ok)
			listed = true
		}
	}
	return !listed && len(f.keys) == 0 && len(f.anti) == 0, ok
}

// appendCounted appends the parts of a tally, times factor, and ands to ok
// whether they are current.
func appendCounted(list []byDomain, tally *framework.Tally, factor int64, ok bool) ([]byDomain, bool) {
	for _, part := range tally.Counted() {
		ok = ok && part.Current()
		list = append(list, byDomain{part.Domains.Of(), part.By(), factor * part.Factor})
	}
	return list, ok
}

func (f *filterForm) Filter(slots []framework.Slot, refusals []framework.Refusal) {
	for i, slot := range slots {
		refusals[i] = f.judge(slot)
	}
}

func (f *filterForm) judge(slot framework.Slot) framework.Refusal {
	near := true
	for i := range f.nearBy {
		domain, number := f.nearBy[i].at(slot)
		if domain == framework.NoDomain {
			return refusedAffinity
		}
		near = near && number > 0
	}
	if !near && (f.anywhere || !f.self) {
		return refusedAffinity
	}
	for i := range f.againstBy {
		if domain, number := f.againstBy[i].at(slot); domain != framework.NoDomain && number > 0 {
			return refusedAnti
		}
	}
	for i := range f.guardsBy {
		if domain, number := f.guardsBy[i].at(slot); domain != framework.NoDomain && number > 0 {
			return refusedExisting
		}
	}
	return framework.Fits
}

func (*filterForm) Status(refusal framework.Refusal) *fwk.Status {
	switch refusal {
	case refusedAffinity:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAffinity).WithPlugin(Name)
	case refusedAnti:
		return fwk.NewStatus(fwk.Unschedulable, reasonAnti).WithPlugin(Name)
	default:
		return fwk.NewStatus(fwk.Unschedulable, reasonExisting).WithPlugin(Name)
	}
}
