package cycle_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/replay/run"
)

// refusal runs a pod of the default profile in a cluster of nodes and returns
// why it fits nowhere.
func fitErrorOf(t *testing.T, pod *v1.Pod, nodes ...*v1.Node) string {
	t.Helper()
	scheduler, err := run.OpenBerth(t.Context(), run.Config{Profile: run.DefaultProfile()})
	if err != nil {
		t.Fatal(err)
	}
	world := run.NewWorld(scheduler)
	for _, node := range nodes {
		if _, err := world.Do(log.Op{Kind: log.Apply, Object: node}); err != nil {
			t.Fatal(err)
		}
	}
	outcome, err := world.Do(log.Op{Kind: log.Schedule, Object: pod})
	if err != nil || outcome.Err == nil {
		t.Fatalf("the pod went to node %q (%v), want a refusal", outcome.Node, err)
	}
	return outcome.Err.Error()
}

func TestUnevaluatedNodesAreRejectedByThePluginsThatNarrowedTheSearch(t *testing.T) {
	nodes := []*v1.Node{
		fixture.Node("n1").Capacity("cpu", "4").Taint("dedicated", "db", v1.TaintEffectNoSchedule).Obj(),
		fixture.Node("n2").Capacity("cpu", "4").Obj(),
	}
	tests := map[string]struct {
		pod  *fixture.PodBuilder
		want string
	}{
		"a pod that names its node": {
			pod:  fixture.Pod("p"),
			want: "1 node(s) didn't satisfy plugin(s) [NodeAffinity]",
		},
		"and that was refused there before, by nomination": {
			pod:  fixture.Pod("p").NominatedNodeName("n1"),
			want: "1 node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]",
		},
		"and whose nominated node is gone": {
			pod:  fixture.Pod("p").NominatedNodeName("n3"),
			want: "1 node(s) didn't satisfy plugin(s) [NodeAffinity]",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := test.pod.Requests("cpu", "1").RequireNodeAffinity(fixture.NodeNameTerm("n1")).Obj()
			got := fitErrorOf(t, pod, nodes...)
			if want := "0/2 nodes are available: " + test.want + ", 1 node(s) had untolerated taint(s)."; got != want {
				t.Errorf("refusal:\n got %s\nwant %s", got, want)
			}
		})
	}
}
