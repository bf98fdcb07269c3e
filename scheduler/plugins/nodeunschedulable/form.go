package nodeunschedulable

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.FilterBatcher = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod; none for those that do not mind
// cordons.
func (*Plugin) FilterForm(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.FilterForm, bool) {
	if toleratesCordons(pod) {
		return nil, true
	}
	return form{columns}, true
}

// form refuses cordoned nodes.
type form struct{ columns *framework.Columns }

const cordoned framework.Refusal = 1

// Idle says that no node is cordoned.
func (f form) Idle() bool { return !f.columns.Cordoned() }

func (f form) Filter(slots []framework.Slot, refusals []framework.Refusal) {
	for i, slot := range slots {
		refusals[i] = framework.Fits
		if f.columns.Rows[slot].Cordoned {
			refusals[i] = cordoned
		}
	}
}

func (form) Status(framework.Refusal) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonCordoned).WithPlugin(Name)
}
