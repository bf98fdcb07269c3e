package interpodaffinity

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

func TestFilter(t *testing.T) {
	for sentence, c := range map[string]struct {
		pod  *fixture.PodBuilder
		more []runtime.Object
		want []string
	}{
		"affinity holds the pod to the zone of its friends": {pod: app("new", "db").RequirePods(near("web")), want: []string{"a1", "a2"}},
		"a host can be a topology":                          {pod: app("new", "db").RequirePods(near("web", topology(v1.LabelHostname))), want: []string{"a1"}},
		"without friends there is nowhere to go":            {pod: app("new", "db").RequirePods(near("none"))},
		"the first of a group may go to any zone":           {pod: app("new", "db").RequirePods(near("db")), want: []string{"a1", "a2", "b1"}},
		"the second may not":                                {pod: app("new", "web").RequirePods(near("web")), want: []string{"a1", "a2"}},
		"one whose terms do not all match it is not of the group": {
			pod: app("new", "db").RequirePods(near("db")).RequirePods(near("none")),
		},
		"a single friend must match every term": {
			pod:  app("new", "db").RequirePods(near("web")).RequirePods(near("", selecting(fixture.Labels("tier", "front")))),
			more: []runtime.Object{fixture.Pod("front").Label("tier", "front").On("a1").Obj()},
		},
		"terms of several topologies hold at once": {
			pod:  app("new", "db").RequirePods(near("web")).RequirePods(near("web", topology("rack"))),
			more: []runtime.Object{fixture.Node("a3").Label("zone", "a").Label("rack", "1").Obj(), app("web3", "web").On("a3").Obj()},
			want: []string{"a3"},
		},
		"a friend that is being deleted still counts": {
			pod: app("new", "cache").RequirePods(near("db")), more: []runtime.Object{app("db", "db").Terminating().On("b1").Obj()},
			want: []string{"b1"},
		},
		"a term speaks of the pod's own namespace": {pod: app("shop/new", "db").RequirePods(near("web"))},
		"or of those that it names":                {pod: app("shop/new", "db").RequirePods(near("web", namespaces("mail", "default"))), want: []string{"a1", "a2"}},
		"or of those that it selects": {
			pod:  app("new", "db").RequirePods(near("web", namespaceSelector("team", "x"))),
			more: []runtime.Object{app("shop/web", "web").On("b1").Obj(), app("mail/web", "web").On("a1").Obj()}, want: []string{"b1"},
		},
		"or of both": {
			pod:  app("mail/new", "db").RequirePods(near("web", namespaceSelector("team", "x"), namespaces("default"))),
			more: []runtime.Object{app("shop/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"or of all, for an empty selector": {
			pod:  app("mail/new", "db").RequirePods(near("web", namespaceSelector())),
			more: []runtime.Object{app("unheard-of/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"no selector of pods means no pod": {pod: app("new", "db").RequirePods(near("web", selecting(nil)))},
		"anti-affinity closes the zone of the foe, not nodes without one": {
			pod: app("new", "db").RefusePods(near("web")), want: []string{"b1", "stray"},
		},
		"any one term is enough": {
			pod:  app("new", "db").RefusePods(near("none")).RefusePods(near("log")),
			more: []runtime.Object{app("log", "log").On("b1").Obj()}, want: []string{"a1", "a2", "stray"},
		},
		"a foe that is being deleted is one still": {
			pod: app("new", "cache").RefusePods(near("db")), more: []runtime.Object{app("db", "db").Terminating().On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"a placed pod keeps its foes away": {
			pod: app("new", "db"), more: []runtime.Object{app("log", "log").RefusePods(near("db")).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"from the namespaces that it selects": {
			pod:  app("shop/new", "db"),
			more: []runtime.Object{app("log", "log").RefusePods(near("db", namespaceSelector("team", "x"))).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"a placed pod whose terms do not parse keeps nobody away": {
			pod: app("new", "db").RefusePods(near("web")), more: []runtime.Object{app("log", "log").RefusePods(broken()).On("b1").Obj()},
			want: []string{"b1", "stray"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := play(t, nil, append(zones(), c.more...)...)
			pod := c.pod.Obj()
			got, reasons := s.Open(t, p, s.Prepared(t, p, pod), pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that are open (-want +got):\n%s\nothers: %v", diff, reasons)
			}
		})
	}
}

func TestPreFilterSkipsPodsThatNobodyHolds(t *testing.T) {
	for sentence, pod := range map[string]*fixture.PodBuilder{
		"a plain pod":                              app("new", "web"),
		"a pod with preferences":                   app("new", "web").PreferPods(1, near("web")),
		"a pod whom a term in another space means": app("mail/new", "db"),
	} {
		t.Run(sentence, func(t *testing.T) {
			guard := app("log", "log").RefusePods(near("db", namespaceSelector("team", "x"))).On("b1").Obj()
			p, s := play(t, nil, append(zones(), guard)...)
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestReasonsAreKubeSchedulers(t *testing.T) {
	guard := app("log", "log").RefusePods(near("db")).On("b1").Obj()
	for sentence, c := range map[string]struct {
		pod  *fixture.PodBuilder
		node string
		want string
	}{
		"affinity is asked first, and removing pods does not help it": {
			pod: app("new", "db").RequirePods(near("web")).RefusePods(near("log")), node: "b1",
			want: "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules",
		},
		"then the pod's anti-affinity": {
			pod: app("new", "db").RefusePods(near("log")), node: "b1",
			want: "Unschedulable: node(s) didn't match pod anti-affinity rules",
		},
		"then that of the others": {
			pod: app("new", "db"), node: "b1",
			want: "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := play(t, nil, append(zones(), guard)...)
			pod := c.pod.Obj()
			_, reasons := s.Open(t, p, s.Prepared(t, p, pod), pod)
			if reasons[c.node] != c.want {
				t.Errorf("node %s: %q, want %q", c.node, reasons[c.node], c.want)
			}
		})
	}
}

func TestABrokenPodFitsNowhere(t *testing.T) {
	p, s := play(t, nil, zones()...)
	_, status := p.PreFilter(t.Context(), framework.NewCycleState(), app("new", "db").PreferPods(1, broken()).Obj(), s.Nodes())
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.HasPrefix(status.Message(), "parsing pod: preferredAffinityTerms: ") {
		t.Errorf("status %v, want UnschedulableAndUnresolvable and what does not parse", status)
	}
}

func TestMissingStatesAreErrors(t *testing.T) {
	p, s := play(t, nil, zones()...)
	pod, state, node := app("new", "db").Obj(), framework.NewCycleState(), s.Node("a1")
	_, score := p.Score(t.Context(), state, pod, node)
	for call, status := range map[string]*fwk.Status{
		"Filter without PreFilter":        p.Filter(t.Context(), state, pod, node),
		"AddPod without PreFilter":        p.AddPod(t.Context(), state, pod, node.GetPods()[0], node),
		"RemovePod without PreFilter":     p.RemovePod(t.Context(), state, pod, node.GetPods()[0], node),
		"Score without PreScore":          score,
		"NormalizeScore without PreScore": p.NormalizeScore(t.Context(), state, pod, nil),
	} {
		if !status.IsError() {
			t.Errorf("%s: %v, want an error", call, status)
		}
	}
}

// randomly gives a pod terms of all kinds.
func randomly(dice *rand.Rand, pod *fixture.PodBuilder) *fixture.PodBuilder {
	term := func() v1.PodAffinityTerm {
		t := near([]string{"web", "db", "log"}[dice.Intn(3)], topology([]string{"zone", v1.LabelHostname}[dice.Intn(2)]))
		if dice.Intn(3) == 0 {
			namespaceSelector("team", []string{"x", "y"}[dice.Intn(2)])(&t)
		}
		return t
	}
	for dice.Intn(3) == 0 {
		pod.RequirePods(term())
	}
	for dice.Intn(2) == 0 {
		pod.RefusePods(term())
	}
	return pod
}

// To think of a pod as there, or as gone, is as good as its being so.
func TestAddPodAndRemovePodEqualRecomputation(t *testing.T) {
	for seed := range int64(400) {
		dice := rand.New(rand.NewSource(seed))
		anyone := func(name string) *fixture.PodBuilder {
			return app([]string{"default/", "shop/", "mail/"}[dice.Intn(3)]+name, []string{"web", "db", "log"}[dice.Intn(3)])
		}
		place := func(name string) *v1.Pod {
			return randomly(dice, anyone(name)).On([]string{"a1", "a2", "b1", "stray"}[dice.Intn(4)]).Obj()
		}
		var pods []runtime.Object
		for i := range dice.Intn(8) {
			pods = append(pods, place(fmt.Sprint("p", i)))
		}
		pod := randomly(dice, anyone("new")).RefusePods(near("nobody")).Obj()
		p, s := play(t, nil, append(zones(), pods...)...)
		state := s.Prepared(t, p, pod)
		untouched, _ := s.Open(t, p, state, pod)
		changed := state.Clone()
		for step := range 6 {
			if dice.Intn(2) == 0 && len(pods) > 0 {
				gone := pods[len(pods)-1].(*v1.Pod)
				pods = pods[:len(pods)-1]
				p.RemovePod(t.Context(), changed, pod, infoOf(gone), s.Node(gone.Spec.NodeName))
			} else {
				came := place(fmt.Sprint("came", step))
				pods = append(pods, came)
				p.AddPod(t.Context(), changed, pod, infoOf(came), s.Node(came.Spec.NodeName))
			}
			anew, t2 := play(t, nil, append(zones(), pods...)...)
			_, recomputed := t2.Open(t, anew, t2.Prepared(t, anew, pod), pod)
			_, moved := s.Open(t, p, changed, pod)
			if diff := cmp.Diff(recomputed, moved); diff != "" {
				t.Fatalf("seed %d, step %d: refusals (-recomputed +moved):\n%s", seed, step, diff)
			}
		}
		if again, _ := s.Open(t, p, state, pod); cmp.Diff(untouched, again) != "" {
			t.Fatalf("seed %d: the state that was cloned changed from %v to %v", seed, untouched, again)
		}
	}
}

func infoOf(pod *v1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(pod)
	return info
}
