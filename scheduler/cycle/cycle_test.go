package cycle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/probe"
)

// fitErrorOf schedules a pod by the default profile and returns the text of its
// FitError.
func fitErrorOf(t *testing.T, pod *v1.Pod, nodes ...*v1.Node) string {
	t.Helper()
	scheduler, err := run.OpenBerth(t.Context(), run.Config{Profile: run.DefaultProfile()})
	if err != nil {
		t.Fatal(err)
	}
	replay := run.NewCluster(scheduler)
	for _, node := range nodes {
		if _, err := replay.Do(log.Op{Kind: log.Apply, Object: node}); err != nil {
			t.Fatal(err)
		}
	}
	outcome, err := replay.Do(log.Op{Kind: log.Schedule, Object: pod})
	if err != nil || outcome.Err == nil {
		t.Fatalf("the pod went to node %q (%v), want a FitError", outcome.Node, err)
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
		"a pod that names its node and was rejected there as nominated": {
			pod:  fixture.Pod("p").NominatedNodeName("n1"),
			want: "1 node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]",
		},
		"a pod that names its node and whose nominated node is gone": {
			pod:  fixture.Pod("p").NominatedNodeName("n3"),
			want: "1 node(s) didn't satisfy plugin(s) [NodeAffinity]",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := test.pod.Requests("cpu", "1").RequireNodeAffinity(fixture.NodeNameTerm("n1")).Obj()
			got := fitErrorOf(t, pod, nodes...)
			if want := "0/2 nodes are available: " + test.want + ", 1 node(s) had untolerated taint(s)."; got != want {
				t.Errorf("message:\n got %s\nwant %s", got, want)
			}
		})
	}
}

// testWalk schedules pods in a cluster of nodes n000, n001 ... with one probe
// plugin at every extension point, which records the evaluated nodes.
type testWalk struct {
	t     *testing.T
	cycle cycle.Cycle
	cache *cache.Cache
	probe *probe.Plugin
	*framework.Framework
}

func newTestWalk(t *testing.T, nodes int, without ...framework.Point) *testWalk {
	w := &testWalk{t: t, cache: cache.New(), probe: &probe.Plugin{PluginName: "A", Log: &probe.CallLog{}}}
	for i := range nodes {
		w.cache.SetNode(fixture.Node(fmt.Sprintf("n%03d", i)).Obj())
	}
	var err error
	w.Framework, err = framework.New(t.Context(), framework.Config{Profile: "p", Chains: probe.Chains([]*probe.Plugin{w.probe}, without...)},
		probe.Registry(w.probe), framework.Host{Clock: clock.RealClock{}, Lister: w.cache.Snapshot(), Nominator: w.cache.Nominator})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// walk runs one attempt and describes it: the first and the last evaluated
// node, their number, and the result.
func (w *testWalk) walk(pod *fixture.PodBuilder) string {
	w.t.Helper()
	w.probe.Log.Take()
	placement, err := w.cycle.Run(w.t.Context(), cycle.Request{
		Framework: w.Framework, Pod: pod.Obj(), Snapshot: w.cache.UpdateSnapshot(), State: framework.NewCycleState(),
	})
	var evaluated []string
	for _, line := range w.probe.Log.Take() {
		if _, node, is := strings.Cut(line, "A.Filter "); is {
			evaluated = append(evaluated, node)
		}
	}
	text := "evaluated none"
	if len(evaluated) > 0 {
		text = fmt.Sprintf("evaluated %d, %s to %s", len(evaluated), evaluated[0], evaluated[len(evaluated)-1])
	}
	var fitErr *framework.FitError
	switch {
	case errors.As(err, &fitErr):
		return text + ": fits on no node"
	case err != nil:
		return text + ": " + err.Error()
	}
	return fmt.Sprintf("%s: %d of %d fit", text, placement.Feasible, placement.Evaluated)
}

// The rules of kube-scheduler: at most K feasible nodes are scored, the (K+1)th
// ends the search and does not count, and the next search starts after the last
// node that counted.
func TestAWalkStartsWhereTheLastOneEnded(t *testing.T) {
	pod := fixture.Pod("p")
	refuse := func(nodes ...string) func(w *testWalk) {
		return func(w *testWalk) {
			for _, node := range nodes {
				w.probe.SetStatus("Filter "+node, probe.Reject("no"))
			}
		}
	}
	for name, c := range map[string]struct {
		nodes   int
		without []framework.Point
		arrange func(w *testWalk)
		pods    []*fixture.PodBuilder
		want    []string
	}{
		"all nodes of a small cluster are evaluated, always from the same node on": {
			nodes: 3, pods: []*fixture.PodBuilder{pod, pod},
			want: []string{"evaluated 3, n000 to n002: 3 of 3 fit", "evaluated 3, n000 to n002: 3 of 3 fit"},
		},
		"a search in a large cluster ends at a feasible node that is not needed, and the next starts there": {
			nodes: 120, pods: []*fixture.PodBuilder{pod, pod, pod},
			want: []string{
				"evaluated 101, n000 to n100: 100 of 100 fit", "evaluated 101, n100 to n080: 100 of 100 fit",
				"evaluated 101, n080 to n060: 100 of 100 fit",
			},
		},
		"rejected nodes count as evaluated, also after the last node that is needed": {
			nodes: 120, arrange: refuse("n005", "n101", "n102"), pods: []*fixture.PodBuilder{pod, pod},
			want: []string{"evaluated 104, n000 to n103: 100 of 103 fit", "evaluated 102, n103 to n084: 100 of 101 fit"},
		},
		"if all feasible nodes are needed, all nodes are evaluated and the next search starts at the same node": {
			nodes: 101, arrange: refuse("n050"), pods: []*fixture.PodBuilder{pod, pod},
			want: []string{"evaluated 101, n000 to n100: 100 of 101 fit", "evaluated 101, n000 to n100: 100 of 101 fit"},
		},
		"without Score plugins the first feasible node is chosen": {
			nodes: 5, without: []framework.Point{framework.PreScore, framework.Score},
			pods: []*fixture.PodBuilder{pod, pod},
			want: []string{"evaluated 2, n000 to n001: 1 of 1 fit", "evaluated 2, n001 to n002: 1 of 1 fit"},
		},
		"for a pod that fits on no node all nodes are evaluated": {
			nodes: 5, arrange: func(w *testWalk) { w.probe.SetStatus("Filter", probe.Reject("no")) },
			pods: []*fixture.PodBuilder{pod, pod},
			want: []string{"evaluated 5, n000 to n004: fits on no node", "evaluated 5, n000 to n004: fits on no node"},
		},
		"a search that fails advances the start by the evaluated nodes": {
			nodes: 120,
			arrange: func(w *testWalk) {
				w.probe.SetStatus("Filter n003", probe.Fail(errors.New("broken")))
			},
			pods: []*fixture.PodBuilder{pod, pod},
			want: []string{
				`evaluated 4, n000 to n003: running "A" filter plugin: broken`,
				`evaluated 1, n003 to n003: running "A" filter plugin: broken`,
			},
		},
		"the nominated node is evaluated first, and does not advance the start if it fits": {
			nodes: 120, pods: []*fixture.PodBuilder{fixture.Pod("p").NominatedNodeName("n007"), pod},
			want: []string{"evaluated 1, n007 to n007: 1 of 1 fit", "evaluated 101, n000 to n100: 100 of 100 fit"},
		},
		"a nominated node that does not fit counts as evaluated": {
			nodes: 120, arrange: refuse("n007"), pods: []*fixture.PodBuilder{fixture.Pod("p").NominatedNodeName("n007"), pod},
			want: []string{"evaluated 103, n007 to n101: 100 of 101 fit", "evaluated 102, n101 to n082: 100 of 101 fit"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestWalk(t, c.nodes, c.without...)
			if c.arrange != nil {
				c.arrange(w)
			}
			var got []string
			for _, pod := range c.pods {
				got = append(got, w.walk(pod))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("walks (-want +got):\n%s", diff)
			}
		})
	}
}
