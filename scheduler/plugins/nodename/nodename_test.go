package nodename_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins/nodename"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestNodeName(t *testing.T) {
	refused := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) didn't match the requested node name")
	for name, c := range map[string]struct {
		pod    *v1.Pod
		result *fwk.PreFilterResult
		status *fwk.Status
	}{
		"a pod that names no node fits on any node": {pod: fixture.Pod("a").Obj()},
		"a pod that names this node fits": {
			pod:    fixture.Pod("a").On("n1").Obj(),
			result: &fwk.PreFilterResult{NodeNames: sets.New("n1")},
		},
		"a pod that names another node does not": {
			pod:    fixture.Pod("a").On("n2").Obj(),
			result: &fwk.PreFilterResult{NodeNames: sets.New("n2")},
			status: refused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := nodename.New(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			node := framework.NewNodeInfo()
			node.SetNode(fixture.Node("n1").Obj())
			state := framework.NewCycleState()
			result, status := plugin.(fwk.PreFilterPlugin).PreFilter(t.Context(), state, c.pod, nil)
			if diff := cmp.Diff(c.result, result); diff != "" || !status.IsSuccess() {
				t.Errorf("PreFilter returns %v, result (-want +got):\n%s", status, diff)
			}
			status = plugin.(fwk.FilterPlugin).Filter(t.Context(), state, c.pod, node)
			if diff := cmp.Diff(c.status, status); diff != "" {
				t.Errorf("Filter (-want +got):\n%s", diff)
			}
		})
	}
}
