package podtopologyspread

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

func TestFilter(t *testing.T) {
	for name, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
		want []string
	}{
		"the zone with more pods is rejected":                           {pod: webPod("new").Spread(zoneConstraint()), want: []string{"b1"}},
		"a larger maxSkew accepts it":                                   {pod: webPod("new").Spread(zoneConstraint(withMaxSkew(2))), want: []string{"a1", "a2", "b1"}},
		"a pod that its selector does not match does not count":         {pod: fixture.Pod("new").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"pods of another namespace do not count":                        {pod: fixture.Pod("shop/new").Label("app", "web").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"a terminating pod does not count":                              {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{webPod("4").Terminating().On("b1").Obj(), webPod("5").Terminating().On("b1").Obj()}, want: []string{"b1"}},
		"an empty zone is the smallest":                                 {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Obj()}, want: []string{"c1"}},
		"a node without the label is rejected":                          {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("stray").Obj()}, want: []string{"b1"}},
		"an empty label is a domain like any other":                     {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("c1").Label("zone", "").Obj()}, want: []string{"c1"}},
		"every constraint must be satisfied":                            {pod: webPod("new").Spread(zoneConstraint()).Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "none")), want: []string{"b1"}},
		"a node that lacks one label does not count for any constraint": {pod: webPod("new").Spread(zoneConstraint()).Spread(fixture.HardSpreadConstraint("rack", "app", "web")), want: nil},
		"with too few domains the smallest counts as 0":                 {pod: webPod("new").Spread(zoneConstraint(withMinDomains(3))), want: nil},
		"with minDomains domains it does not":                           {pod: webPod("new").Spread(zoneConstraint(withMinDomains(2))), want: []string{"b1"}},
		"zones that the pod does not select do not count":               {pod: webPod("new").NodeSelector("zone", "a").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"unless the affinity is ignored":                                {pod: webPod("new").NodeSelector("zone", "a").Spread(zoneConstraint(withNodeAffinityPolicy(v1.NodeInclusionPolicyIgnore))), want: []string{"b1"}},
		"tainted nodes count": {
			pod: webPod("new").Spread(zoneConstraint()), want: []string{"c1"},
			more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Taint("x", "", v1.TaintEffectNoSchedule).Obj()},
		},
		"unless taints are honored": {
			pod: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))), want: []string{"b1", "c1"},
			more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Taint("x", "", v1.TaintEffectNoSchedule).Obj()},
		},
		"matchLabelKeys restrict the selector": {
			pod: webPod("new").Label("rev", "2").Spread(zoneConstraint(withMatchLabelKeys("rev", "absent"))), want: []string{"a1", "a2"},
			more: []runtime.Object{webPod("4").Label("rev", "2").On("b1").Obj()},
		},
		"a nil selector counts no pods, not even the pod itself": {pod: webPod("new").Spread(zoneConstraint(withSelector(nil))), want: []string{"a1", "a2", "b1"}},
		"an empty selector counts only the pod itself":           {pod: webPod("new").Spread(zoneConstraint(withSelector(fixture.LabelSelector()))), want: []string{"a1", "a2", "b1"}},
		"hard defaults spread the pods of a service": {
			args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), pod: webPod("new"),
			more: []runtime.Object{fixture.Service("web", "app", "web")}, want: []string{"b1"},
		},
		"and those of a replica set": {
			args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), pod: webPod("new").Owner("ReplicaSet", "web"),
			more: []runtime.Object{fixture.ReplicaSet("web", "app", "web")}, want: []string{"b1"},
		},
		"and of a stateful set": {
			args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), pod: webPod("new").Owner("StatefulSet", "web"),
			more: []runtime.Object{fixture.StatefulSet("web", "app", "web")}, want: []string{"b1"},
		},
		"and of a replication controller": {
			args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)),
			pod: webPod("new").Owner("ReplicationController", "web").Mutate(func(p *v1.Pod) {
				p.OwnerReferences[0].APIVersion = "v1"
			}),
			more: []runtime.Object{fixture.ReplicationController("web", "app", "web")}, want: []string{"b1"},
		},
		"a pod's own constraints replace the defaults": {
			args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), pod: webPod("new").Spread(zoneConstraint(withMaxSkew(2))),
			more: []runtime.Object{fixture.Service("web", "app", "web")}, want: []string{"a1", "a2", "b1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			pod := c.pod.Obj()
			got, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that fit (-want +got):\n%s\nothers: %v", diff, reasons)
			}
		})
	}
}

func TestPreFilterSkipsPodsWithoutHardConstraints(t *testing.T) {
	for name, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
	}{
		"a pod without constraints":                                      {pod: webPod("new")},
		"a pod with soft constraints":                                    {pod: webPod("new").Spread(fixture.SoftSpreadConstraint("zone", "app", "web"))},
		"a pod with the system defaults":                                 {pod: webPod("new"), more: []runtime.Object{fixture.Service("web", "app", "web")}},
		"a pod with hard defaults that no service or controller selects": {pod: webPod("new"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule))},
		"a pod with a service that selects no pods": {
			pod: webPod("new"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), more: []runtime.Object{fixture.Service("web")},
		},
		"a pod whose controller does not exist": {
			pod: webPod("new").Owner("ReplicaSet", "web"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			if _, status := p.PreFilter(t.Context(), framework.NewCycleState(), c.pod.Obj(), s.Nodes()); !status.IsSkip() {
				t.Errorf("status %v, want Skip", status)
			}
		})
	}
}

func TestReasonsEqualThoseOfKubeScheduler(t *testing.T) {
	p, s := newPlugin(t, nil, append(zonedCluster(), fixture.Node("stray").Obj())...)
	pod := webPod("new").Spread(zoneConstraint()).Obj()
	_, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
	want := map[string]string{
		"a1":    "Unschedulable: node(s) didn't match pod topology spread constraints",
		"a2":    "Unschedulable: node(s) didn't match pod topology spread constraints",
		"stray": "UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required label)",
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestUnparsableSelectorsAndMissingStatesAreErrors(t *testing.T) {
	p, s := newPlugin(t, nil, zonedCluster()...)
	pod := webPod("new").Spread(zoneConstraint(withSelector(unparsableSelector()))).Spread(fixture.SoftSpreadConstraint("zone", "app", "web")).Mutate(func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints[1].LabelSelector = unparsableSelector()
	}).Obj()
	state := framework.NewCycleState()
	_, preFilter := p.PreFilter(t.Context(), state, pod, s.Nodes())
	_, score := p.Score(t.Context(), state, pod, s.Node("a1"))
	for call, status := range map[string]*fwk.Status{
		"PreFilter of a selector that does not parse": preFilter,
		"PreScore of a selector that does not parse":  p.PreScore(t.Context(), state, pod, s.Nodes()),
		"Filter without PreFilter":                    p.Filter(t.Context(), state, pod, s.Node("a1")),
		"AddPod without PreFilter":                    p.AddPod(t.Context(), state, pod, s.Node("a1").GetPods()[0], s.Node("a1")),
		"Score without PreScore":                      score,
		"NormalizeScore without PreScore":             p.NormalizeScore(t.Context(), state, pod, nil),
	} {
		if !status.IsError() {
			t.Errorf("%s: %v, want an error", call, status)
		}
	}
}

// The result of AddPod and RemovePod equals the result of PreFilter on a cluster with
// the same pods.
func TestAddPodAndRemovePodEqualRecomputation(t *testing.T) {
	for seed := range int64(300) {
		random := rand.New(rand.NewSource(seed))
		var nodes, pods []runtime.Object
		for i := range 2 + random.Intn(6) {
			node := fixture.Node(fmt.Sprint("n", i)).Label("disk", []string{"ssd", "hdd"}[random.Intn(2)])
			if random.Intn(5) > 0 {
				node.Label("zone", string(rune('a'+random.Intn(3))))
			}
			nodes = append(nodes, node.Obj())
		}
		for i := range random.Intn(12) {
			pods = append(pods, webPod(fmt.Sprint("p", i)).On(fmt.Sprint("n", random.Intn(len(nodes)))).Obj())
		}
		pod := webPod("new").Spread(zoneConstraint(withMinDomains(1 + random.Int31n(3)))).Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web"))
		if random.Intn(2) == 0 {
			pod.NodeSelector("disk", "ssd")
		}
		want := pod.Obj()
		p, s := newPlugin(t, nil, append(nodes, pods...)...)
		state := s.RunPreFilter(t, p, want)
		original, _ := s.RunFilter(t, p, state, want)
		changed := state.Clone()
		for step := range 6 {
			if random.Intn(2) == 0 && len(pods) > 0 {
				removed := pods[len(pods)-1].(*v1.Pod)
				pods = pods[:len(pods)-1]
				p.RemovePod(t.Context(), changed, want, newPodInfo(removed), s.Node(removed.Spec.NodeName))
			} else {
				added := webPod(fmt.Sprint("added", step)).On(fmt.Sprint("n", random.Intn(len(nodes)))).Obj()
				pods = append(pods, added)
				p.AddPod(t.Context(), changed, want, newPodInfo(added), s.Node(added.Spec.NodeName))
			}
			other, otherCluster := newPlugin(t, nil, append(nodes[:len(nodes):len(nodes)], pods...)...)
			recomputed, _ := otherCluster.RunFilter(t, other, otherCluster.RunPreFilter(t, other, want), want)
			updated, _ := s.RunFilter(t, p, changed, want)
			if diff := cmp.Diff(recomputed, updated); diff != "" {
				t.Fatalf("seed %d, step %d: nodes that fit (-recomputed +updated):\n%s", seed, step, diff)
			}
		}
		if unchanged, _ := s.RunFilter(t, p, state, want); cmp.Diff(original, unchanged) != "" {
			t.Fatalf("seed %d: the state that was cloned changed from %v to %v", seed, original, unchanged)
		}
	}
}

func newPodInfo(pod *v1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(pod)
	return info
}
