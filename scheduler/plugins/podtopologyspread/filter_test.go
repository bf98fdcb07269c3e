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
	"github.com/berthdev/berth/test/fixture"
)

func TestFilter(t *testing.T) {
	for sentence, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
		want []string
	}{
		"the fuller zone is closed":                       {pod: webPod("new").Spread(zoneConstraint()), want: []string{"b1"}},
		"a larger skew opens it":                          {pod: webPod("new").Spread(zoneConstraint(withMaxSkew(2))), want: []string{"a1", "a2", "b1"}},
		"a pod that is not one of them does not add":      {pod: fixture.Pod("new").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"pods of another namespace do not count":          {pod: fixture.Pod("shop/new").Label("app", "web").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"a pod that is being deleted does not count":      {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{webPod("4").Terminating().On("b1").Obj(), webPod("5").Terminating().On("b1").Obj()}, want: []string{"b1"}},
		"an empty zone is the smallest":                   {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Obj()}, want: []string{"c1"}},
		"a node without the label is closed":              {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("stray").Obj()}, want: []string{"b1"}},
		"an empty label is a domain like any other":       {pod: webPod("new").Spread(zoneConstraint()), more: []runtime.Object{fixture.Node("c1").Label("zone", "").Obj()}, want: []string{"c1"}},
		"every constraint must hold":                      {pod: webPod("new").Spread(zoneConstraint()).Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "none")), want: []string{"b1"}},
		"a node that lacks one label counts for none":     {pod: webPod("new").Spread(zoneConstraint()).Spread(fixture.HardSpreadConstraint("rack", "app", "web")), want: nil},
		"with too few domains the smallest counts as 0":   {pod: webPod("new").Spread(zoneConstraint(withMinDomains(3))), want: nil},
		"with enough of them it does not":                 {pod: webPod("new").Spread(zoneConstraint(withMinDomains(2))), want: []string{"b1"}},
		"zones that the pod does not select do not count": {pod: webPod("new").NodeSelector("zone", "a").Spread(zoneConstraint()), want: []string{"a1", "a2", "b1"}},
		"unless the affinity is ignored":                  {pod: webPod("new").NodeSelector("zone", "a").Spread(zoneConstraint(withNodeAffinityPolicy(v1.NodeInclusionPolicyIgnore))), want: []string{"b1"}},
		"tainted nodes count": {
			pod: webPod("new").Spread(zoneConstraint()), want: []string{"c1"},
			more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Taint("x", "", v1.TaintEffectNoSchedule).Obj()},
		},
		"unless taints are honoured": {
			pod: webPod("new").Spread(zoneConstraint(withNodeTaintsPolicy(v1.NodeInclusionPolicyHonor))), want: []string{"b1", "c1"},
			more: []runtime.Object{fixture.Node("c1").Label("zone", "c").Taint("x", "", v1.TaintEffectNoSchedule).Obj()},
		},
		"the labels that a constraint names narrow its selector": {
			pod: webPod("new").Label("rev", "2").Spread(zoneConstraint(withMatchLabelKeys("rev", "absent"))), want: []string{"a1", "a2"},
			more: []runtime.Object{webPod("4").Label("rev", "2").On("b1").Obj()},
		},
		"no selector counts nobody, not even the pod": {pod: webPod("new").Spread(zoneConstraint(withSelector(nil))), want: []string{"a1", "a2", "b1"}},
		"an empty selector counts the pod alone":      {pod: webPod("new").Spread(zoneConstraint(withSelector(fixture.LabelSelector()))), want: []string{"a1", "a2", "b1"}},
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
		t.Run(sentence, func(t *testing.T) {
			p, s := newPlugin(t, c.args, append(zonedCluster(), c.more...)...)
			pod := c.pod.Obj()
			got, reasons := s.RunFilter(t, p, s.RunPreFilter(t, p, pod), pod)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("nodes that are open (-want +got):\n%s\nothers: %v", diff, reasons)
			}
		})
	}
}

func TestPreFilterSkipsPodsWithoutHardConstraints(t *testing.T) {
	for sentence, c := range map[string]struct {
		args *configv1.PodTopologySpreadArgs
		pod  *fixture.PodBuilder
		more []runtime.Object
	}{
		"a pod without constraints":                  {pod: webPod("new")},
		"a pod with soft constraints":                {pod: webPod("new").Spread(fixture.SoftSpreadConstraint("zone", "app", "web"))},
		"a pod under the system's defaults":          {pod: webPod("new"), more: []runtime.Object{fixture.Service("web", "app", "web")}},
		"a pod under hard defaults that is nobody's": {pod: webPod("new"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule))},
		"a pod of a service that selects nobody": {
			pod: webPod("new"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)), more: []runtime.Object{fixture.Service("web")},
		},
		"a pod whose controller is not known": {
			pod: webPod("new").Owner("ReplicaSet", "web"), args: argsWithDefaults(defaultConstraint("zone", v1.DoNotSchedule)),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
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

// To think of a pod as there, or as gone, is as good as its being so.
func TestAddPodAndRemovePodEqualRecomputation(t *testing.T) {
	for seed := range int64(300) {
		dice := rand.New(rand.NewSource(seed))
		var nodes, pods []runtime.Object
		for i := range 2 + dice.Intn(6) {
			node := fixture.Node(fmt.Sprint("n", i)).Label("disk", []string{"ssd", "hdd"}[dice.Intn(2)])
			if dice.Intn(5) > 0 {
				node.Label("zone", string(rune('a'+dice.Intn(3))))
			}
			nodes = append(nodes, node.Obj())
		}
		for i := range dice.Intn(12) {
			pods = append(pods, webPod(fmt.Sprint("p", i)).On(fmt.Sprint("n", dice.Intn(len(nodes)))).Obj())
		}
		pod := webPod("new").Spread(zoneConstraint(withMinDomains(1 + dice.Int31n(3)))).Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web"))
		if dice.Intn(2) == 0 {
			pod.NodeSelector("disk", "ssd")
		}
		want := pod.Obj()
		p, s := newPlugin(t, nil, append(nodes, pods...)...)
		state := s.RunPreFilter(t, p, want)
		untouched, _ := s.RunFilter(t, p, state, want)
		changed := state.Clone()
		for step := range 6 {
			if dice.Intn(2) == 0 && len(pods) > 0 {
				gone := pods[len(pods)-1].(*v1.Pod)
				pods = pods[:len(pods)-1]
				p.RemovePod(t.Context(), changed, want, newPodInfo(gone), s.Node(gone.Spec.NodeName))
			} else {
				came := webPod(fmt.Sprint("came", step)).On(fmt.Sprint("n", dice.Intn(len(nodes)))).Obj()
				pods = append(pods, came)
				p.AddPod(t.Context(), changed, want, newPodInfo(came), s.Node(came.Spec.NodeName))
			}
			anew, t2 := newPlugin(t, nil, append(nodes[:len(nodes):len(nodes)], pods...)...)
			recomputed, _ := t2.RunFilter(t, anew, t2.RunPreFilter(t, anew, want), want)
			moved, _ := s.RunFilter(t, p, changed, want)
			if diff := cmp.Diff(recomputed, moved); diff != "" {
				t.Fatalf("seed %d, step %d: open nodes (-recomputed +moved):\n%s", seed, step, diff)
			}
		}
		if again, _ := s.RunFilter(t, p, state, want); cmp.Diff(untouched, again) != "" {
			t.Fatalf("seed %d: the state that was cloned changed from %v to %v", seed, untouched, again)
		}
	}
}

func newPodInfo(pod *v1.Pod) fwk.PodInfo {
	info, _ := framework.NewPodInfo(pod)
	return info
}
