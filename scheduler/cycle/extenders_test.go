package cycle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/test/support/fixture"
)

// testExtender is an extender with configured answers.
type testExtender struct {
	name          string
	filter        func(names []string) (fit []string, failed, unresolvable extenderv1.FailedNodesMap, err error)
	scores        map[string]int64
	scoreErr      error
	weight        int64
	ignorable     bool
	uninterested  bool
	filtered      []string
	prioritizings int
}

func (v *testExtender) Name() string              { return v.name }
func (v *testExtender) IsFilter() bool            { return v.filter != nil }
func (v *testExtender) IsPrioritizer() bool       { return v.scores != nil || v.scoreErr != nil }
func (v *testExtender) IsBinder() bool            { return false }
func (v *testExtender) IsIgnorable() bool         { return v.ignorable }
func (v *testExtender) IsInterested(*v1.Pod) bool { return !v.uninterested }
func (v *testExtender) SupportsPreemption() bool  { return false }
func (v *testExtender) Bind(*v1.Binding) error    { return errors.New("it does not bind") }
func (v *testExtender) ProcessPreemption(*v1.Pod, map[string]*extenderv1.Victims, fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	return nil, errors.New("it does not preempt")
}

func (v *testExtender) Filter(_ *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodeInfo, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	byName, names := map[string]fwk.NodeInfo{}, []string{}
	for _, n := range nodes {
		names = append(names, n.Node().Name)
		byName[n.Node().Name] = n
	}
	v.filtered = append(v.filtered, strings.Join(names, " "))
	fit, failed, unresolvable, err := v.filter(names)
	var infos []fwk.NodeInfo
	for _, name := range fit {
		infos = append(infos, byName[name])
	}
	return infos, failed, unresolvable, err
}

func (v *testExtender) Prioritize(*v1.Pod, []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	v.prioritizings++
	var list extenderv1.HostPriorityList
	for name, score := range v.scores {
		list = append(list, extenderv1.HostPriority{Host: name, Score: score})
	}
	return &list, v.weight, v.scoreErr
}

// filterKeeps returns a Filter that keeps some nodes and rejects others for the
// given reasons.
func filterKeeps(fit string, failed, unresolvable extenderv1.FailedNodesMap) func([]string) ([]string, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	return func([]string) ([]string, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
		return strings.Fields(fit), failed, unresolvable, nil
	}
}

func filterFails([]string) ([]string, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
	return nil, nil, nil, errors.New("out of order")
}

// extended returns a Framework with NodeResourcesFit and the extenders, and a
// cluster of nodes a, b and c.
func extended(t *testing.T, extenders ...*testExtender) (*framework.Framework, *cache.Cache) {
	t.Helper()
	clusterCache := cache.New()
	for i, name := range []string{"a", "b", "c"} {
		clusterCache.SetNode(fixture.Node(name).CreationOrder(i).Capacity("cpu", "4", "pods", "10").Obj())
	}
	clusterCache.UpdateSnapshot()
	registry := plugins.InTree()
	fit := registry["NodeResourcesFit"].NewArgs()
	registry["NodeResourcesFit"].Default(fit)
	chains := framework.Chains{
		framework.QueueSort: {{Name: "PrioritySort"}},
		framework.PreFilter: {{Name: "NodeResourcesFit"}}, framework.Filter: {{Name: "NodeResourcesFit"}},
		framework.PreScore: {{Name: "NodeResourcesFit"}}, framework.Score: {{Name: "NodeResourcesFit", Weight: 1}},
	}
	var all []fwk.Extender
	for _, e := range extenders {
		all = append(all, e)
	}
	f, err := framework.New(t.Context(), framework.Config{
		Profile: "p", Chains: chains, Args: map[string]runtime.Object{"NodeResourcesFit": fit}, Extenders: all,
	}, registry, framework.Host{Lister: clusterCache.Snapshot(), Nominator: clusterCache.Nominator, Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, clusterCache
}

func TestExtendersFilterAndScoreAfterPlugins(t *testing.T) {
	type outcome struct {
		Node      string
		Feasible  int
		Evaluated int
		Message   string
		Blamed    []string
		Codes     map[string]fwk.Code
	}
	no := extenderv1.FailedNodesMap{}
	unfeasible := func(message string, blamed []string, codes map[string]fwk.Code) outcome {
		return outcome{Message: message, Blamed: blamed, Codes: codes}
	}
	for description, test := range map[string]struct {
		extenders []*testExtender
		want      outcome
		filtered  [][]string
	}{
		"each extender filters the nodes that the ones before it kept": {
			extenders: []*testExtender{{name: "x", filter: filterKeeps("a c", extenderv1.FailedNodesMap{"b": "no"}, no)}, {name: "y", filter: filterKeeps("c", extenderv1.FailedNodesMap{"a": "no"}, no)}},
			want:      outcome{Node: "c", Feasible: 1, Evaluated: 3}, filtered: [][]string{{"a b c"}, {"a c"}},
		},
		"failed nodes are Unschedulable, unresolvable ones UnschedulableAndUnresolvable": {
			extenders: []*testExtender{{name: "x", filter: filterKeeps("", extenderv1.FailedNodesMap{"a": "busy", "b": "busy"}, extenderv1.FailedNodesMap{"c": "broken"})}},
			want: unfeasible("0/3 nodes are available: 1 broken, 2 busy.", []string{"Extender/x"},
				map[string]fwk.Code{"a": fwk.Unschedulable, "b": fwk.Unschedulable, "c": fwk.UnschedulableAndUnresolvable}),
			filtered: [][]string{{"a b c"}},
		},
		"a node that is failed and unresolvable is UnschedulableAndUnresolvable": {
			extenders: []*testExtender{{name: "x", filter: filterKeeps("", extenderv1.FailedNodesMap{"a": "busy", "b": "busy", "c": "busy"}, extenderv1.FailedNodesMap{"c": "broken"})}},
			want: unfeasible("0/3 nodes are available: 1 broken, 2 busy.", []string{"Extender/x"},
				map[string]fwk.Code{"a": fwk.Unschedulable, "b": fwk.Unschedulable, "c": fwk.UnschedulableAndUnresolvable}),
			filtered: [][]string{{"a b c"}},
		},
		"if no node is left no other extender is called": {
			extenders: []*testExtender{{name: "x", filter: filterKeeps("", extenderv1.FailedNodesMap{"a": "no", "b": "no", "c": "no"}, no)}, {name: "y", filter: filterFails}},
			want: unfeasible("0/3 nodes are available: 3 no.", []string{"Extender/x"},
				map[string]fwk.Code{"a": fwk.Unschedulable, "b": fwk.Unschedulable, "c": fwk.Unschedulable}),
			filtered: [][]string{{"a b c"}, nil},
		},
		"an extender that fails fails the attempt": {
			extenders: []*testExtender{{name: "x", filter: filterFails}}, want: outcome{Message: "out of order"}, filtered: [][]string{{"a b c"}},
		},
		"an ignorable extender that fails does not fail the attempt": {
			extenders: []*testExtender{{name: "x", filter: filterKeeps("b", extenderv1.FailedNodesMap{"a": "no", "c": "no"}, no)}, {name: "y", filter: filterFails, ignorable: true}},
			want:      outcome{Node: "b", Feasible: 1, Evaluated: 3}, filtered: [][]string{{"a b c"}, {"b"}},
		},
		"an extender that is not interested is not called": {
			extenders: []*testExtender{{name: "x", filter: filterFails, uninterested: true}, {name: "y", filter: filterKeeps("b", extenderv1.FailedNodesMap{"a": "no", "c": "no"}, no)}},
			want:      outcome{Node: "b", Feasible: 1, Evaluated: 3}, filtered: [][]string{nil, {"a b c"}},
		},
		"scores are ten times the weight": {
			extenders: []*testExtender{{name: "x", scores: map[string]int64{"b": 10, "c": 1}, weight: 1}, {name: "y", scores: map[string]int64{"c": 5}, weight: 2}},
			want:      outcome{Node: "c", Feasible: 3, Evaluated: 3},
		},
		"scores of an extender that fails are left out": {
			extenders: []*testExtender{{name: "x", scoreErr: errors.New("out of order")}, {name: "y", scores: map[string]int64{"b": 1}, weight: 1}},
			want:      outcome{Node: "b", Feasible: 3, Evaluated: 3},
		},
	} {
		t.Run(description, func(t *testing.T) {
			f, clusterCache := extended(t, test.extenders...)
			for _, equivalenceCache := range []*cycle.EquivalenceCache{nil, cycle.NewEquivalenceCache(f)} {
				for _, e := range test.extenders {
					e.filtered = nil
				}
				placement, err := new(cycle.Cycle).Run(t.Context(), cycle.Request{
					Framework: f, Pod: fixture.Pod("p").Obj(), Snapshot: clusterCache.Snapshot(), State: framework.NewCycleState(), EquivalenceCache: equivalenceCache,
				})
				var got outcome
				var unfeasible *framework.FitError
				switch {
				case errors.As(err, &unfeasible):
					got.Message, got.Codes = err.Error(), map[string]fwk.Code{}
					for name := range unfeasible.Diagnosis.UnschedulablePlugins {
						got.Blamed = append(got.Blamed, name)
					}
					unfeasible.Diagnosis.NodeToStatus.ForEachExplicitNode(func(node string, s *fwk.Status) { got.Codes[node] = s.Code() })
				case err != nil:
					got.Message = err.Error()
				default:
					got = outcome{Node: placement.Node, Feasible: placement.Feasible, Evaluated: placement.Evaluated}
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("outcome (-want +got):\n%s", diff)
				}
				for i, filtered := range test.filtered {
					if diff := cmp.Diff(filtered, test.extenders[i].filtered); diff != "" {
						t.Errorf("%s filtered (-want +got):\n%s", test.extenders[i].name, diff)
					}
				}
			}
		})
	}
}

// An extender's scores are part of the total, and are recorded under the
// extender's name.
func TestExtenderScoresAreInThePlacement(t *testing.T) {
	f, clusterCache := extended(t, &testExtender{name: "x", scores: map[string]int64{"b": 7}, weight: 3})
	placement, err := new(cycle.Cycle).Run(t.Context(), cycle.Request{
		Framework: f, Pod: fixture.Pod("p").Obj(), Snapshot: clusterCache.Snapshot(), State: framework.NewCycleState(), EquivalenceCache: cycle.NewEquivalenceCache(f),
	})
	if err != nil {
		t.Fatal(err)
	}
	best := placement.Top(1)[0]
	if best.Node != "b" || best.Plugins["Extender/x"] != 210 || best.Score != best.Plugins["NodeResourcesFit"]+210 {
		t.Errorf("the best is %+v", best)
	}
}

// An extender's answer for one pod is not used for the next pod of its class.
func TestExtenderResultsAreNotCached(t *testing.T) {
	chosen := "a"
	x := &testExtender{name: "x"}
	x.filter = func(names []string) ([]string, extenderv1.FailedNodesMap, extenderv1.FailedNodesMap, error) {
		failed := extenderv1.FailedNodesMap{}
		for _, name := range names {
			if name != chosen {
				failed[name] = "not now"
			}
		}
		return []string{chosen}, failed, nil, nil
	}
	f, clusterCache := extended(t, x)
	equivalenceCache := cycle.NewEquivalenceCache(f)
	for _, chosen = range []string{"a", "b", "c", "b"} {
		placement, err := new(cycle.Cycle).Run(t.Context(), cycle.Request{
			Framework: f, Pod: fixture.Pod("p").Obj(), Snapshot: clusterCache.Snapshot(), State: framework.NewCycleState(), EquivalenceCache: equivalenceCache,
		})
		if err != nil || placement.Node != chosen {
			t.Errorf("the pod went to %v (%v), want %s", placement, err, chosen)
		}
	}
}
