package podtopologyspread

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// nodeScore is the score of one node before and after NormalizeScore.
type nodeScore struct{ Raw, Normalized int64 }

func TestScore(t *testing.T) {
	soft := func(changes ...func(*v1.TopologySpreadConstraint)) v1.TopologySpreadConstraint {
		c := zoneConstraint(changes...)
		c.WhenUnsatisfiable = v1.ScheduleAnyway
		return c
	}
	service := fixture.Service("web", "app", "web")
	for name, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
		// without lists nodes that are in the cluster and not scored.
		without []string
		want    map[string]nodeScore
	}{
		// With two zones each pod counts log(4) = 1.386.
		"the zone with fewer pods scores higher": {
			pod: webPod("new").Spread(soft()), want: map[string]nodeScore{"a1": {3, 33}, "a2": {3, 33}, "b1": {1, 100}},
		},
		"a larger maxSkew reduces the difference": {
			pod: webPod("new").Spread(soft(withMaxSkew(5))), want: map[string]nodeScore{"a1": {7, 71}, "a2": {7, 71}, "b1": {5, 100}},
		},
		// With one zone each pod counts log(3) = 1.099.
		"only the domains of scored nodes count": {
			pod: webPod("new").Spread(soft()), without: []string{"b1"}, want: map[string]nodeScore{"a1": {2, 100}, "a2": {2, 100}},
		},
		"but all pods in these domains count": {
			pod: webPod("new").Spread(soft()), without: []string{"a2"}, want: map[string]nodeScore{"a1": {3, 33}, "b1": {1, 100}},
		},
		"a node without the label scores 0": {
			pod: webPod("new").Spread(soft()), more: []runtime.Object{fixture.Node("stray").Obj()},
			want: map[string]nodeScore{"a1": {3, 33}, "a2": {3, 33}, "b1": {1, 100}, "stray": {0, 0}},
		},
		// With three hosts each pod counts log(5) = 1.609.
		"each host is a domain of its own": {
			pod:  webPod("new").Spread(fixture.SoftSpreadConstraint(v1.LabelHostname, "app", "web")),
			more: []runtime.Object{webPod("4").On("b1").Obj()},
			want: map[string]nodeScore{"a1": {2, 100}, "a2": {2, 100}, "b1": {3, 66}},
		},
		"a terminating pod does not count": {
			pod: webPod("new").Spread(soft()), more: []runtime.Object{webPod("4").Terminating().On("b1").Obj()},
			want: map[string]nodeScore{"a1": {3, 33}, "a2": {3, 33}, "b1": {1, 100}},
		},
		"pods on nodes that the pod does not select do not count": {
			pod:  webPod("new").NodeSelector(v1.LabelHostname, "a1").Spread(soft()),
			want: map[string]nodeScore{"a1": {1, 0}, "a2": {1, 0}, "b1": {0, 100}},
		},
		"without pods to spread all nodes score 100": {
			pod: fixture.Pod("shop/new").Spread(soft()), want: map[string]nodeScore{"a1": {0, 100}, "a2": {0, 100}, "b1": {0, 100}},
		},
		// With five hosts each pod counts log(7) = 1.946, and with three zones
		// log(5) = 1.609: to have no zone is a domain, too. The skews add 2 and 4. So z1 has
		// 1.946 + 2 + 1.609 + 4, and a1, which has no zone, 1.946 + 2.
		"the system defaults score nodes without a zone": {
			pod: webPod("new"), more: []runtime.Object{
				service, fixture.Node("z1").Zone("z").Obj(), webPod("4").On("z1").Obj(), fixture.Node("y1").Zone("y").Obj(),
			},
			want: map[string]nodeScore{"a1": {4, 100}, "a2": {4, 100}, "b1": {4, 100}, "z1": {10, 40}, "y1": {6, 80}},
		},
		"listed defaults do not score them": {
			args: argsWithDefaults(defaultConstraint("zone", v1.ScheduleAnyway)), pod: webPod("new"), more: []runtime.Object{service, fixture.Node("stray").Obj()},
			want: map[string]nodeScore{"a1": {3, 33}, "a2": {3, 33}, "b1": {1, 100}, "stray": {0, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			var nodes []fwk.NodeInfo
			for _, node := range s.Nodes() {
				if name := node.Node().Name; len(c.without) == 0 || name != c.without[0] {
					nodes = append(nodes, node)
				}
			}
			if diff := cmp.Diff(c.want, runScore(t, p, c.pod.Obj(), nodes)); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func runScore(t *testing.T, p *Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) map[string]nodeScore {
	t.Helper()
	state := framework.NewCycleState()
	if status := p.PreScore(t.Context(), state, pod, nodes); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	var list fwk.NodeScoreList
	raw := map[string]int64{}
	for _, node := range nodes {
		points, status := p.Score(t.Context(), state, pod, node)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		name := node.Node().Name
		raw[name] = points
		list = append(list, fwk.NodeScore{Name: name, Score: points})
	}
	if status := p.ScoreExtensions().NormalizeScore(t.Context(), state, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	got := map[string]nodeScore{}
	for _, node := range list {
		got[node.Name] = nodeScore{raw[node.Name], node.Score}
	}
	return got
}

func TestPreScoreSkipsPodsWithoutSoftConstraints(t *testing.T) {
	for name, c := range map[string]struct {
		pod     *fixture.PodBuilder
		objects []runtime.Object
	}{
		"a pod of no service and no controller": {pod: webPod("new"), objects: zonedCluster()},
		"a pod with hard constraints":           {pod: webPod("new").Spread(zoneConstraint()), objects: zonedCluster()},
		"any pod in a cluster without nodes":    {pod: webPod("new").Spread(fixture.SoftSpreadConstraint("zone", "app", "web"))},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, nil, c.objects...)
			if status := p.PreScore(t.Context(), framework.NewCycleState(), c.pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}
