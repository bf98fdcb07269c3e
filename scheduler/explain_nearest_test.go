package scheduler

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/test/fixture"
)

// The nodes that a refused pod is shown are those that it can come to when it
// waits: not those that its own selector, or a taint that somebody set, excludes.
func TestTheClosestNodesAreThoseThatWaitingMayOpen(t *testing.T) {
	node := func(name, zone, cpu string) *fixture.NodeBuilder {
		return fixture.Node(name).Label(v1.LabelTopologyZone, zone).Capacity("cpu", cpu, "pods", "9")
	}
	const notReady, dedicated = "node.kubernetes.io/not-ready", "example.com/dedicated"
	inZone1 := func() *fixture.PodBuilder {
		return podWithCPUs("shop/a", 8, 0).NodeSelector(v1.LabelTopologyZone, "zone-1")
	}
	for sentence, c := range map[string]struct {
		pod   *fixture.PodBuilder
		nodes []*fixture.NodeBuilder
		want  string
	}{
		"a pod that wants zone-1 is shown nodes of zone-1, though those of zone-2 have room": {
			inZone1(), []*fixture.NodeBuilder{node("a", "zone-2", "64"), node("b", "zone-1", "2"), node("c", "zone-2", "9"), node("d", "zone-1", "4")},
			"[{d [{cpu 8 4  }]} {b [{cpu 8 2  }]}]",
		},
		"so it is where another plugin refused the nodes of zone-2 before": {
			inZone1(), []*fixture.NodeBuilder{
				node("a", "zone-2", "64").Unschedulable(), node("b", "zone-2", "64").Unschedulable(), node("c", "zone-2", "64").Unschedulable(),
				node("d", "zone-1", "4").Unschedulable(),
			},
			"[{d [{   NodeUnschedulable node(s) were unschedulable} {cpu 8 4  }]}]",
		},
		"a node that is not ready is shown, one of a pool that the pod does not tolerate is not": {
			podWithCPUs("shop/a", 8, 0), []*fixture.NodeBuilder{
				node("a", "zone-1", "2"), node("b", "zone-1", "64").Taint(notReady, "", v1.TaintEffectNoSchedule),
				node("c", "zone-1", "64").Taint(dedicated, "", v1.TaintEffectNoSchedule),
			},
			"[{b [{   TaintToleration node(s) had untolerated taint(s)}]} {a [{cpu 8 2  }]}]",
		},
		"a node without the label of a topology spread constraint is not shown": {
			podWithCPUs("shop/a", 8, 0).Spread(v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: v1.DoNotSchedule,
			}), []*fixture.NodeBuilder{
				node("a", "zone-1", "64"), node("b", "zone-1", "2").Label("example.com/rack", "r1"),
			},
			"[{b [{cpu 8 2  }]}]",
		},
		"where every node is excluded, those are shown that the fewest plugins exclude": {
			inZone1(), []*fixture.NodeBuilder{
				node("a", "zone-2", "64").Taint(dedicated, "", v1.TaintEffectNoSchedule), node("b", "zone-2", "2"),
			},
			"[{b [{   NodeAffinity node(s) didn't match Pod's node affinity/selector} {cpu 8 2  }]}]",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var nodes []runtime.Object
			for _, n := range c.nodes {
				nodes = append(nodes, n.Obj())
			}
			runWithInTreePlugins(t, func(w *testEnv) {
				w.create(c.pod.Obj())
				why := w.status("a")
				if why == nil {
					t.Fatal("it is not explained")
				}
				w.want("the closest nodes", fmt.Sprint(why.ClosestNodes), c.want)
			}, nodes...)
		})
	}
}
