package interpodaffinity

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
	for name, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
		want map[string]nodeScore
	}{
		"preferred affinity scores nodes near matching pods": {
			pod: appPod("new", "db").PreferPodAffinity(7, affinityTerm("web")), want: map[string]nodeScore{"a1": {7, 100}, "a2": {7, 100}, "b1": {}, "stray": {}},
		},
		"each matching pod counts": {
			pod: appPod("new", "db").PreferPodAffinity(7, affinityTerm("web")), more: []runtime.Object{appPod("web2", "web").On("a2").Obj(), appPod("web3", "web").On("b1").Obj()},
			want: map[string]nodeScore{"a1": {14, 100}, "a2": {14, 100}, "b1": {7, 50}, "stray": {}},
		},
		"preferred anti-affinity scores nodes near matching pods lower": {
			pod: appPod("new", "db").PreferPodAntiAffinity(7, affinityTerm("web")), want: map[string]nodeScore{"a1": {-7, 0}, "a2": {-7, 0}, "b1": {0, 100}, "stray": {0, 100}},
		},
		"both add up": {
			pod:  appPod("new", "db").PreferPodAffinity(9, affinityTerm("web")).PreferPodAntiAffinity(3, affinityTerm("web", withTopologyKey(v1.LabelHostname))),
			want: map[string]nodeScore{"a1": {6, 66}, "a2": {9, 100}, "b1": {}, "stray": {}},
		},
		"terms that cancel each other out do not skip Score": {
			pod: appPod("new", "db").PreferPodAffinity(7, affinityTerm("web")).PreferPodAntiAffinity(7, affinityTerm("web")), want: map[string]nodeScore{"a1": {}, "a2": {}, "b1": {}, "stray": {}},
		},
		"the preferred affinity of a placed pod counts": {
			pod: appPod("new", "db"), more: []runtime.Object{appPod("log", "log").PreferPodAffinity(4, affinityTerm("db")).On("b1").Obj()},
			want: map[string]nodeScore{"a1": {}, "a2": {}, "b1": {4, 100}, "stray": {}},
		},
		"and so does its preferred anti-affinity": {
			pod: appPod("new", "db"), more: []runtime.Object{appPod("log", "log").PreferPodAntiAffinity(4, affinityTerm("db")).On("b1").Obj()},
			want: map[string]nodeScore{"a1": {0, 100}, "a2": {0, 100}, "b1": {-4, 0}, "stray": {0, 100}},
		},
		"required affinity of a placed pod counts with hardPodAffinityWeight": {
			args: withHardPodAffinityWeight(5), pod: appPod("new", "web"), more: []runtime.Object{appPod("db", "db").RequirePodAffinity(affinityTerm("web")).On("a2").Obj()},
			want: map[string]nodeScore{"a1": {5, 100}, "a2": {5, 100}, "b1": {}, "stray": {}},
		},
		"ignored terms of placed pods count for a pod with preferred terms": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true},
			pod:  appPod("new", "db").PreferPodAffinity(1, affinityTerm("web")), more: []runtime.Object{appPod("log", "log").PreferPodAffinity(4, affinityTerm("db")).On("b1").Obj()},
			want: map[string]nodeScore{"a1": {1, 25}, "a2": {1, 25}, "b1": {4, 100}, "stray": {}},
		},
		"a term may select namespaces": {
			pod:  appPod("new", "db").PreferPodAffinity(2, affinityTerm("web", withNamespaceSelector("team", "x"))),
			more: []runtime.Object{appPod("shop/web", "web").On("b1").Obj()},
			want: map[string]nodeScore{"a1": {}, "a2": {}, "b1": {2, 100}, "stray": {}},
		},
		"and so may the terms of placed pods": {
			pod:  appPod("shop/new", "db"),
			more: []runtime.Object{appPod("log", "log").PreferPodAffinity(4, affinityTerm("db", withNamespaceSelector("team", "x"))).On("b1").Obj()},
			want: map[string]nodeScore{"a1": {}, "a2": {}, "b1": {4, 100}, "stray": {}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			if diff := cmp.Diff(c.want, runScore(t, p, c.pod.Obj(), s.Nodes())); diff != "" {
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
	got := map[string]nodeScore{}
	for _, node := range nodes {
		points, status := p.Score(t.Context(), state, pod, node)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		name := node.Node().Name
		got[name] = nodeScore{Raw: points}
		list = append(list, fwk.NodeScore{Name: name, Score: points})
	}
	if status := p.ScoreExtensions().NormalizeScore(t.Context(), state, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	for _, node := range list {
		got[node.Name] = nodeScore{got[node.Name].Raw, node.Score}
	}
	return got
}

func TestPreScoreSkipsPodsWithoutPreferredTerms(t *testing.T) {
	required := appPod("db", "db").RequirePodAffinity(affinityTerm("web")).On("a2").Obj()
	preferred := appPod("log", "log").PreferPodAffinity(4, affinityTerm("web")).On("b1").Obj()
	for name, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
	}{
		"a pod that no term selects":                             {pod: appPod("new", "db")},
		"a pod whose preferred terms select no pod":              {pod: appPod("new", "db").PreferPodAffinity(1, affinityTerm("none"))},
		"a pod that required affinity selects, with weight 0":    {args: withHardPodAffinityWeight(0), pod: appPod("new", "web"), more: []runtime.Object{required}},
		"a pod that terms select only on nodes without a domain": {pod: appPod("new", "db"), more: []runtime.Object{appPod("log", "log").PreferPodAffinity(4, affinityTerm("db")).On("stray").Obj()}},
		"a pod that ignored terms of placed pods select": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, pod: appPod("new", "web"),
			more: []runtime.Object{preferred},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			if status := p.PreScore(t.Context(), framework.NewCycleState(), c.pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestPreScoreRejectsTermsThatDoNotParse(t *testing.T) {
	p, s := newPlugin(t, nil, zonedCluster()...)
	if status := p.PreScore(t.Context(), framework.NewCycleState(), appPod("new", "db").RequirePodAffinity(unparsableTerm()).Obj(), s.Nodes()); !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}
