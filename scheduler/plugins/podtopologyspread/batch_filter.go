package podtopologyspread

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
	if state.GetSkipFilterPlugins().Has(Name) {
		return nil, true // pods of this class have no hard constraints
	}
	h, err := getPreFilterState(state)
	if _, incremental := p.counts.(counts.Incremental); err != nil || !incremental {
		return nil, false
	}
	return &batchFilter{preFilterState: h, limits: make([]domainLimit, len(h.constraints))}, true
}

// batchFilter is the batch form of Filter.
type batchFilter struct {
	*preFilterState
	// limits has an entry for each constraint, valid for one attempt.
	limits []domainLimit
}

// domainLimit is the largest count of a domain that has room for the pod, with the
// domain of each slot and the count of each domain.
type domainLimit struct {
	domainBySlot  []int32
	countByDomain []int64
	maxCount      int64
}

// The reasons for rejecting a node.
const (
	missingLabel podclass.RejectionCode = 1 + iota
	exceedsMaxSkew
)

// Begin reads the current counts. It returns ok false when they are no longer
// maintained.
func (f *batchFilter) Begin() (skip, ok bool) {
	for i, sum := range f.counts {
		term := sum.Terms()[0]
		if !term.Current() {
			return false, false
		}
		f.limits[i] = domainLimit{
			domainBySlot: term.Domains.BySlot(), countByDomain: term.Values(),
			maxCount: int64(f.constraints[i].maxSkew) - f.selfMatchNum[i] + f.minMatchNum(i),
		}
	}
	return false, true
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
	for i := range f.limits {
		l := &f.limits[i]
		domain, count := l.domainBySlot[slot], int64(0)
		if domain == counts.NoDomain {
			return missingLabel
		}
		if int(domain) < len(l.countByDomain) {
			count = l.countByDomain[domain]
		}
		if count > l.maxCount {
			return exceedsMaxSkew
		}
	}
	return podclass.NotRejected
}

func (*batchFilter) Status(code podclass.RejectionCode) *fwk.Status {
	if code == missingLabel {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonLabel).WithPlugin(Name)
	}
	return fwk.NewStatus(fwk.Unschedulable, reasonSkew).WithPlugin(Name)
}
