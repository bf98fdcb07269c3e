package scene

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Prepared asks a plugin's PreFilter about a pod, which must let it go on, and
// returns the state that Filter is to be asked with.
func (s *Cluster) RunPreFilter(t *testing.T, plugin fwk.PreFilterPlugin, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(t.Context(), state, pod, s.Nodes()); !status.IsSuccess() {
		t.Fatalf("PreFilter: %v", status)
	}
	return state
}

// Open are the names of the nodes that a plugin's Filter lets the pod on, in order,
// and the others' reasons, each as "code: message".
func (s *Cluster) RunFilter(t *testing.T, plugin fwk.FilterPlugin, state fwk.CycleState, pod *v1.Pod) (open []string, reasons map[string]string) {
	t.Helper()
	reasons = map[string]string{}
	for _, node := range s.Nodes() {
		switch status := plugin.Filter(t.Context(), state, pod, node); {
		case status.IsSuccess():
			open = append(open, node.Node().Name)
		case status.IsRejected():
			reasons[node.Node().Name] = status.Code().String() + ": " + status.Message()
		default:
			t.Fatalf("Filter of %s: %v", node.Node().Name, status)
		}
	}
	slices.Sort(open)
	return open, reasons
}
