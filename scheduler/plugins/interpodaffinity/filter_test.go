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
	"github.com/berthdev/berth/test/support/fixture"
)

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *fixture.PodBuilder
		more []runtime.Object
		want []string
	}{
		"affinity restricts the pod to the zone of matching pods": {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web")), want: []string{"a1", "a2"}},
		"a host name can be a topology":                           {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web", withTopologyKey(v1.LabelHostname))), want: []string{"a1"}},
		"without a matching pod no node fits":                     {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("none"))},
		"the first pod of a group may go to any zone":             {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("db")), want: []string{"a1", "a2", "b1"}},
		"the second pod may not":                                  {pod: appPod("new", "web").RequirePodAffinity(affinityTerm("web")), want: []string{"a1", "a2"}},
		"a pod that does not match all of its terms is not of the group": {
			pod: appPod("new", "db").RequirePodAffinity(affinityTerm("db")).RequirePodAffinity(affinityTerm("none")),
		},
		"a single pod must match every term": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAffinity(affinityTerm("", withSelector(fixture.LabelSelector("tier", "front")))),
			more: []runtime.Object{fixture.Pod("front").Label("tier", "front").On("a1").Obj()},
		},
		"terms of several topologies hold at once": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAffinity(affinityTerm("web", withTopologyKey("rack"))),
			more: []runtime.Object{fixture.Node("a3").Label("zone", "a").Label("rack", "1").Obj(), appPod("web3", "web").On("a3").Obj()},
			want: []string{"a3"},
		},
		"a terminating pod still counts": {
			pod: appPod("new", "cache").RequirePodAffinity(affinityTerm("db")), more: []runtime.Object{appPod("db", "db").Terminating().On("b1").Obj()},
			want: []string{"b1"},
		},
		"a term selects pods in the pod's own namespace": {pod: appPod("shop/new", "db").RequirePodAffinity(affinityTerm("web"))},
		"or in the namespaces that it names":             {pod: appPod("shop/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaces("mail", "default"))), want: []string{"a1", "a2"}},
		"or in those that its selector selects": {
			pod:  appPod("new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"))),
			more: []runtime.Object{appPod("shop/web", "web").On("b1").Obj(), appPod("mail/web", "web").On("a1").Obj()}, want: []string{"b1"},
		},
		"or in both": {
			pod:  appPod("mail/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector("team", "x"), withNamespaces("default"))),
			more: []runtime.Object{appPod("shop/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"or in all namespaces, for an empty selector": {
			pod:  appPod("mail/new", "db").RequirePodAffinity(affinityTerm("web", withNamespaceSelector())),
			more: []runtime.Object{appPod("unheard-of/web", "web").On("b1").Obj()}, want: []string{"a1", "a2", "b1"},
		},
		"no label selector selects no pod": {pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web", withSelector(nil)))},
		"anti-affinity rejects the zone of a matching pod, not nodes without a zone": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web")), want: []string{"b1", "stray"},
		},
		"any term rejects a node": {
			pod:  appPod("new", "db").RequirePodAntiAffinity(affinityTerm("none")).RequirePodAntiAffinity(affinityTerm("log")),
			more: []runtime.Object{appPod("log", "log").On("b1").Obj()}, want: []string{"a1", "a2", "stray"},
		},
		"a terminating pod still counts for anti-affinity": {
			pod: appPod("new", "cache").RequirePodAntiAffinity(affinityTerm("db")), more: []runtime.Object{appPod("db", "db").Terminating().On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"the anti-affinity of a placed pod rejects its zone": {
			pod: appPod("new", "db"), more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db")).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"also for pods in the namespaces that its selector selects": {
			pod:  appPod("shop/new", "db"),
			more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("b1").Obj()},
			want: []string{"a1", "a2", "stray"},
		},
		"the terms of a placed pod that do not parse reject no node": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("web")), more: []runtime.Object{appPod("log", "log").RequirePodAntiAffinity(unparsableTerm()).On("b1").Obj()},
			want: []string{"b1", "stray"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, nil, append(zonedCluster(), c.more...)...)
			pod := c.pod.Obj()
			got, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that fit (-want +got):\n%s\nothers: %v", diff, reasons)
			}
		})
	}
}

func TestPreFilterSkipsPodsWithoutRequiredTerms(t *testing.T) {
	for name, pod := range map[string]*fixture.PodBuilder{
		"a plain pod":            appPod("new", "web"),
		"a pod with preferences": appPod("new", "web").PreferPodAffinity(1, affinityTerm("web")),
		"a pod that terms select only in another namespace": appPod("mail/new", "db"),
	} {
		t.Run(name, func(t *testing.T) {
			existing := appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db", withNamespaceSelector("team", "x"))).On("b1").Obj()
			p, s := newPlugin(t, nil, append(zonedCluster(), existing)...)
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestReasonsEqualThoseOfKubeScheduler(t *testing.T) {
	existing := appPod("log", "log").RequirePodAntiAffinity(affinityTerm("db")).On("b1").Obj()
	for name, c := range map[string]struct {
		pod  *fixture.PodBuilder
		node string
		want string
	}{
		"affinity is evaluated first, and is not resolvable by preemption": {
			pod: appPod("new", "db").RequirePodAffinity(affinityTerm("web")).RequirePodAntiAffinity(affinityTerm("log")), node: "b1",
			want: "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules",
		},
		"then the pod's anti-affinity": {
			pod: appPod("new", "db").RequirePodAntiAffinity(affinityTerm("log")), node: "b1",
			want: "Unschedulable: node(s) didn't match pod anti-affinity rules",
		},
		"then the anti-affinity of placed pods": {
			pod: appPod("new", "db"), node: "b1",
			want: "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, nil, append(zonedCluster(), existing)...)
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
		t.Errorf("status %v, want UnschedulableAndUnresolvable with the parse error", status)
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

// withRandomTerms adds random required terms of all kinds to a pod.
func withRandomTerms(random *rand.Rand, pod *fixture.PodBuilder) *fixture.PodBuilder {
	term := func() v1.PodAffinityTerm {
		t := affinityTerm([]string{"web", "db", "log"}[random.Intn(3)], withTopologyKey([]string{"zone", v1.LabelHostname}[random.Intn(2)]))
		if random.Intn(3) == 0 {
			withNamespaceSelector("team", []string{"x", "y"}[random.Intn(2)])(&t)
		}
		return t
	}
	for random.Intn(3) == 0 {
		pod.RequirePodAffinity(term())
	}
	for random.Intn(2) == 0 {
		pod.RequirePodAntiAffinity(term())
	}
	return pod
}

// The result of AddPod and RemovePod equals the result of PreFilter on a cluster with
// the same pods.
func TestAddPodAndRemovePodEqualRecomputation(t *testing.T) {
	for seed := range int64(400) {
		random := rand.New(rand.NewSource(seed))
		randomPod := func(name string) *fixture.PodBuilder {
			return appPod([]string{"default/", "shop/", "mail/"}[random.Intn(3)]+name, []string{"web", "db", "log"}[random.Intn(3)])
		}
		placedPod := func(name string) *v1.Pod {
			return withRandomTerms(random, randomPod(name)).On([]string{"a1", "a2", "b1", "stray"}[random.Intn(4)]).Obj()
		}
		var pods []runtime.Object
		for i := range random.Intn(8) {
			pods = append(pods, placedPod(fmt.Sprint("p", i)))
		}
		pod := withRandomTerms(random, randomPod("new")).RequirePodAntiAffinity(affinityTerm("no-such-app")).Obj()
		p, s := newPlugin(t, nil, append(zonedCluster(), pods...)...)
		state := s.RunPreFilter(t, p, pod)
		original, _ := s.RunFilter(t, p, state, pod)
		changed := state.Clone()
		for step := range 6 {
			if random.Intn(2) == 0 && len(pods) > 0 {
				removed := pods[len(pods)-1].(*v1.Pod)
				pods = pods[:len(pods)-1]
				p.RemovePod(t.Context(), changed, pod, newPodInfo(removed), s.Node(removed.Spec.NodeName))
			} else {
				added := placedPod(fmt.Sprint("added", step))
				pods = append(pods, added)
				p.AddPod(t.Context(), changed, pod, newPodInfo(added), s.Node(added.Spec.NodeName))
			}
			other, otherCluster := newPlugin(t, nil, append(zonedCluster(), pods...)...)
			_, recomputed := otherCluster.RunFilter(t, other, otherCluster.RunPreFilter(t, other, pod), pod)
			_, updated := s.RunFilter(t, p, changed, pod)
			if diff := cmp.Diff(recomputed, updated); diff != "" {
				t.Fatalf("seed %d, step %d: rejections (-recomputed +updated):\n%s", seed, step, diff)
			}
		}
		if unchanged, _ := s.RunFilter(t, p, state, pod); cmp.Diff(original, unchanged) != "" {
			t.Fatalf("seed %d: the state that was cloned changed from %v to %v", seed, original, unchanged)
		}
	}
}

func newPodInfo(pod *v1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(pod)
	return info
}
