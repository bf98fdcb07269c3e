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
		"affinity holds the pod to the zone of its friends": {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web")), want: []string{"a1", "a2"}},
		"a host can be a topology":                          {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web", withTopologyKey(v1.LabelHostname))), want: []string{"a1"}},
		"without friends there is nowhere to go":            {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("none"))},
		"the first of a group may go to any zone":           {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("db")), want: []string{"a1", "a2", "b1"}},
		"the second may not":                                {pod: appPod("new", "web").RequirePodAffinity(affinityTerm("web")), want: []string{"a1", "a2"}},
		"one whose terms do not all match it is not of the group": {
			pod: appPod("new", "db").RequirePodAffinity(affinityTerm("db")).RequirePodAffinity(affinityTerm("none")),
		},
		"a single friend must match every term": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAffinity(affinityTerm("", withSelector(fixture.LabelSelector("tier", "front")))),
			more: []runtime.Object{fixture.Pod("front").Label("tier", "front").On("a1").Obj()},
		},
		"terms of several topologies hold at once": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAffinity(affinityTerm("web", withTopologyKey("rack"))),
			more: []runtime.Object{fixture.Node("a3").Label("zone", "a").Label("rack", "1").Obj(), appPod("web3", "web").On("a3").Obj()},
			want: []string{"a3"},
		},
		"a friend that is being deleted still counts": {
			pod: appPod("new", "cache").RequirePodAffinity(affinityTerm("db")), more: []runtime.Object{appPod("db", "db").Terminating().On("b1").Obj()},
			want: []string{"b1"},
		},
		"a term speaks of the pod's own namespace": {pod: appPod("shop/new", "db").RequirePodAffinity(affinityTerm("web"))},
		"or of those that it names":                {pod: appPod("shop/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaces("mail", "default"))), want: []string{"a1", "a2"}},
		"or of those that it selects": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"))),
			more: []runtime.Object{appPod("shop/web", "web").On("b1").Obj(), appPod("mail/web", "web").On("a1").Obj()}, want: []string{"b1"},
		},
		"or of both": {
			pod:  appPod("mail/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"), withNamespaces("default"))),
			more: []runtime.Object{appPod("shop/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"or of all, for an empty selector": {
			pod:  appPod("mail/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector())),
			more: []runtime.Object{appPod("unheard-of/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"no selector of pods means no pod": {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web", withSelector(nil)))},
		"anti-affinity closes the zone of the foe, not nodes without one": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web")), want: []string{"b1", "stray"},
		},
		"any one term is enough": {
			pod:  appPod("new", "db").RequirePodAntiAffinity(affinityTerm("none")).RequirePodAntiAffinity(affinityTerm("log")),
			more: []runtime.Object{appPod("log", "log").On("b1").Obj()}, want: []string{"a1", "a2", "stray"},
		},
		"a foe that is being deleted is one still": {
			pod: appPod("new", "cache").RequirePodAntiAffinity(affinityTerm("db")), more: []runtime.Object{appPod("db", "db").Terminating().On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"a placed pod keeps its foes away": {
			pod: appPod("new", "db"), more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db")).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"from the namespaces that it selects": {
			pod:  appPod("shop/new", "db"),
			more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"a placed pod whose terms do not parse keeps nobody away": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web")), more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(unparsableTerm()).On("b1").Obj()},
			want: []string{"b1", "stray"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := newPlugin(t, nil, append(zonedCluster(), c.more...)...)
			pod := c.pod.Obj()
			got, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that are open (-want +got):\n%s\nothers: %v", diff, reasons)
			}
		})
	}
}

func TestPreFilterSkipsPodsWithoutRequiredTerms(t *testing.T) {
	for sentence, pod := range map[string]*fixture.PodBuilder{
		"a plain pod":                              appPod("new", "web"),
		"a pod with preferences":                   appPod("new", "web").PreferPodAffinity(1, affinityTerm("web")),
		"a pod whom a term in another space means": appPod("mail/new", "db"),
	} {
		t.Run(sentence, func(t *testing.T) {
			guard := appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("b1").Obj()
			p, s := newPlugin(t, nil, append(zonedCluster(), guard)...)
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestReasonsEqualThoseOfKubeScheduler(t *testing.T) {
	guard := appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db")).On("b1").Obj()
	for sentence, c := range map[string]struct {
		pod  *fixture.PodBuilder
		node string
		want string
	}{
		"affinity is asked first, and removing pods does not help it": {
			pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAntiAffinity(affinityTerm("log")), node: "b1",
			want: "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules",
		},
		"then the pod's anti-affinity": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("log")), node: "b1",
			want: "Unschedulable: node(s) didn't match pod anti-affinity rules",
		},
		"then that of the others": {
			pod: appPod("new", "db"), node: "b1",
			want: "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			p, s := newPlugin(t, nil, append(zonedCluster(), guard)...)
			pod := c.pod.Obj()
			_, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
			if reasons[c.node] != c.want {
				t.Errorf("node %s: %q, want %q", c.node, reasons[c.node], c.want)
			}
		})
	}
}

func TestPreFilterRejectsTermsThatDoNotParse(t *testing.T) {
	p, s := newPlugin(t, nil, zonedCluster()...)
	_, status := p.PreFilter(t.Context(), framework.NewCycleState(), appPod("new", "db").PreferPodAffinity(1, unparsableTerm()).Obj(), s.Nodes())
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.HasPrefix(status.Message(), "parsing pod: preferredAffinityTerms: ") {
		t.Errorf("status %v, want UnschedulableAndUnresolvable and what does not parse", status)
	}
}

func TestMissingStatesAreErrors(t *testing.T) {
	p, s := newPlugin(t, nil, zonedCluster()...)
	pod, state, node := appPod("new", "db").Obj(), framework.NewCycleState(), s.Node("a1")
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
func withRandomTerms(dice *rand.Rand, pod *fixture.PodBuilder) *fixture.PodBuilder {
	term := func() v1.PodAffinityTerm {
		t := affinityTerm([]string{"web", "db", "log"}[dice.Intn(3)], withTopologyKey([]string{"zone", v1.LabelHostname}[dice.Intn(2)]))
		if dice.Intn(3) == 0 {
			withNamespaceSelector("team", []string{"x", "y"}[dice.Intn(2)])(&t)
		}
		return t
	}
	for dice.Intn(3) == 0 {
		pod.RequirePodAffinity(term())
	}
	for dice.Intn(2) == 0 {
		pod.RequirePodAntiAffinity(term())
	}
	return pod
}

// To think of a pod as there, or as gone, is as good as its being so.
func TestAddPodAndRemovePodEqualRecomputation(t *testing.T) {
	for seed := range int64(400) {
		dice := rand.New(rand.NewSource(seed))
		anyone := func(name string) *fixture.PodBuilder {
			return appPod([]string{"default/", "shop/", "mail/"}[dice.Intn(3)]+name, []string{"web", "db", "log"}[dice.Intn(3)])
		}
		place := func(name string) *v1.Pod {
			return withRandomTerms(dice, anyone(name)).On([]string{"a1", "a2", "b1", "stray"}[dice.Intn(4)]).Obj()
		}
		var pods []runtime.Object
		for i := range dice.Intn(8) {
			pods = append(pods, place(fmt.Sprint("p", i)))
		}
		pod := withRandomTerms(dice, anyone("new")).RequirePodAntiAffinity(affinityTerm("nobody")).Obj()
		p, s := newPlugin(t, nil, append(zonedCluster(), pods...)...)
		state := s.RunPreFilter(t, p, pod)
		untouched, _ := s.RunFilter(t, p, state, pod)
		changed := state.Clone()
		for step := range 6 {
			if dice.Intn(2) == 0 && len(pods) > 0 {
				gone := pods[len(pods)-1].(*v1.Pod)
				pods = pods[:len(pods)-1]
				p.RemovePod(t.Context(), changed, pod, newPodInfo(gone), s.Node(gone.Spec.NodeName))
			} else {
				came := place(fmt.Sprint("came", step))
				pods = append(pods, came)
				p.AddPod(t.Context(), changed, pod, newPodInfo(came), s.Node(came.Spec.NodeName))
			}
			anew, t2 := newPlugin(t, nil, append(zonedCluster(), pods...)...)
			_, recomputed := t2.RunFilter(t, anew, t2.RunPreFilter(t, anew, pod), pod)
			_, moved := s.RunFilter(t, p, changed, pod)
			if diff := cmp.Diff(recomputed, moved); diff != "" {
				t.Fatalf("seed %d, step %d: refusals (-recomputed +moved):\n%s", seed, step, diff)
			}
		}
		if again, _ := s.RunFilter(t, p, state, pod); cmp.Diff(untouched, again) != "" {
			t.Fatalf("seed %d: the state that was cloned changed from %v to %v", seed, untouched, again)
		}
	}
}

func newPodInfo(pod *v1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(pod)
	return info
}
