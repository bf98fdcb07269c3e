package nodename

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.BatchFilterPlugin = (*Plugin)(nil)

// FilterForm refuses no node to pods that name none.
func (*Plugin) BatchFilter(_ fwk.CycleState, pod *v1.Pod, _ *framework.Columns) (framework.BatchFilter, bool) {
	return nil, pod.Spec.NodeName == ""
}
