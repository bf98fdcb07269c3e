package nodeunschedulable

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchFilterPlugin = (*Plugin)(nil)

// FilterForm returns Filter for pods like pod; none for those that do not mind
// cordons.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, columns *framework.Columns) (framework.BatchFilter, bool) {
	if toleratesUnschedulableTaint(pod) {
		return nil, true
	}
	return batchFilter{columns}, true
}

// form refuses cordoned nodes.
type batchFilter struct{ columns *framework.Columns }

const cordoned framework.RejectionCode = 1

// Idle says that no node is cordoned.
func (f batchFilter) Idle() bool { return !f.columns.HasCordonedNodes() }

func (f batchFilter) Filter(slots []framework.Slot, refusals []framework.RejectionCode) {
	for i, slot := range slots {
		refusals[i] = framework.NotRejected
		if f.columns.Rows[slot].Cordoned {
			refusals[i] = cordoned
		}
	}
}

func (batchFilter) Status(framework.RejectionCode) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonUnschedulable).WithPlugin(Name)
}
