package interpodaffinity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// scored is what became of one node.
type scored struct{ Raw, Normalised int64 }

func TestScore(t *testing.T) {
	for sentence, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
		want map[string]scored
	}{
		"a preference draws the pod to its friends": {
			pod: app("new", "db").PreferPods(7, near("web")), want: map[string]scored{"a1": {7, 100}, "a2": {7, 100}, "b1": {}, "stray": {}},
		},
		"each friend draws": {
			pod: app("new", "db").PreferPods(7, near("web")), more: []runtime.Object{app("web2", "web").On("a2").Obj(), app("web3", "web").On("b1").Obj()},
			want: map[string]scored{"a1": {14, 100}, "a2": {14, 100}, "b1": {7, 50}, "stray": {}},
		},
		"a dislike drives it away": {
			pod: app("new", "db").AvoidPods(7, near("web")), want: map[string]scored{"a1": {-7, 0}, "a2": {-7, 0}, "b1": {0, 100}, "stray": {0, 100}},
		},
		"both add up": {
			pod:  app("new", "db").PreferPods(9, near("web")).AvoidPods(3, near("web", topology(v1.LabelHostname))),
			want: map[string]scored{"a1": {6, 66}, "a2": {9, 100}, "b1": {}, "stray": {}},
		},
		"what pulls both ways alike is not skipped": {
			pod: app("new", "db").PreferPods(7, near("web")).AvoidPods(7, near("web")), want: map[string]scored{"a1": {}, "a2": {}, "b1": {}, "stray": {}},
		},
		"a placed pod draws its friends": {
			pod: app("new", "db"), more: []runtime.Object{app("log", "log").PreferPods(4, near("db")).On("b1").Obj()},
			want: map[string]scored{"a1": {}, "a2": {}, "b1": {4, 100}, "stray": {}},
		},
		"and drives away its foes": {
			pod: app("new", "db"), more: []runtime.Object{app("log", "log").AvoidPods(4, near("db")).On("b1").Obj()},
			want: map[string]scored{"a1": {0, 100}, "a2": {0, 100}, "b1": {-4, 0}, "stray": {0, 100}},
		},
		"what a placed pod required draws with the weight of the arguments": {
			args: hardWeight(5), pod: app("new", "web"), more: []runtime.Object{app("db", "db").RequirePods(near("web")).On("a2").Obj()},
			want: map[string]scored{"a1": {5, 100}, "a2": {5, 100}, "b1": {}, "stray": {}},
		},
		"placed pods are looked at even if they are ignored, for a pod with preferences": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true},
			pod:  app("new", "db").PreferPods(1, near("web")), more: []runtime.Object{app("log", "log").PreferPods(4, near("db")).On("b1").Obj()},
			want: map[string]scored{"a1": {1, 25}, "a2": {1, 25}, "b1": {4, 100}, "stray": {}},
		},
		"a term may select namespaces": {
			pod:  app("new", "db").PreferPods(2, near("web", namespaceSelector("team", "x"))),
			more: []runtime.Object{app("shop/web", "web").On("b1").Obj()},
			want: map[string]scored{"a1": {}, "a2": {}, "b1": {2, 100}, "stray": {}},
		},
		"and so may those of placed pods": {
			pod:  app("shop/new", "db"),
			more: []runtime.Object{app("log", "log").PreferPods(4, near("db", namespaceSelector("team", "x"))).On("b1").Obj()},
			want: map[string]scored{"a1": {}, "a2": {}, "b1": {4, 100}, "stray": {}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := play(t, c.args, append(zones(), c.more...)...)
			if diff := cmp.Diff(c.want, score(t, p, c.pod.Obj(), s.Nodes())); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func score(t *testing.T, p *Plugin, pod *v1.Pod, nodes []fwk.NodeInfo) map[string]scored {
	t.Helper()
	state := framework.NewCycleState()
	if status := p.PreScore(t.Context(), state, pod, nodes); !status.IsSuccess() {
		t.Fatalf("PreScore: %v", status)
	}
	var list fwk.NodeScoreList
	got := map[string]scored{}
	for _, node := range nodes {
		points, status := p.Score(t.Context(), state, pod, node)
		if !status.IsSuccess() {
			t.Fatalf("Score: %v", status)
		}
		name := node.Node().Name
		got[name] = scored{Raw: points}
		list = append(list, fwk.NodeScore{Name: name, Score: points})
	}
	if status := p.ScoreExtensions().NormalizeScore(t.Context(), state, pod, list); !status.IsSuccess() {
		t.Fatalf("NormalizeScore: %v", status)
	}
	for _, node := range list {
		got[node.Name] = scored{got[node.Name].Raw, node.Score}
	}
	return got
}

func TestPreScoreSkipsPodsThatNobodyPrefers(t *testing.T) {
	required := app("db", "db").RequirePods(near("web")).On("a2").Obj()
	preferred := app("log", "log").PreferPods(4, near("web")).On("b1").Obj()
	for sentence, c := range map[string]struct {
		args *configv1.InterPodAffinityArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
	}{
		"a pod that nobody knows":                    {pod: app("new", "db")},
		"a pod that prefers what is not there":       {pod: app("new", "db").PreferPods(1, near("none"))},
		"a pod that is required, at no weight":       {args: hardWeight(0), pod: app("new", "web"), more: []runtime.Object{required}},
		"a pod that is preferred on no node's label": {pod: app("new", "db"), more: []runtime.Object{app("log", "log").PreferPods(4, near("db")).On("stray").Obj()}},
		"a pod that is preferred, which is ignored": {
			args: &configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}, pod: app("new", "web"),
			more: []runtime.Object{preferred},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := play(t, c.args, append(zones(), c.more...)...)
			if status := p.PreScore(t.Context(), framework.NewCycleState(), c.pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestPreScoreOfABrokenPodIsAnError(t *testing.T) {
	p, s := play(t, nil, zones()...)
	if status := p.PreScore(t.Context(), framework.NewCycleState(), app("new", "db").RequirePods(broken()).Obj(), s.Nodes()); !status.IsError() {
		t.Errorf("status %v, want an error", status)
	}
}
