package checker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/plugins"
	"github.com/berthdev/berth/scheduler/sandbox"
	"github.com/berthdev/berth/test/support/fixture"
)

// one returns one of some values.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// maybe runs a function one time in three.
func maybe(r *rand.Rand, do func()) {
	if r.IntN(3) == 0 {
		do()
	}
}

// randomNode returns a node with some of what keeps pods away.
func randomNode(r *rand.Rand, i int) *corev1.Node {
	b := fixture.Node(fmt.Sprint("n", i)).Capacity("cpu", one(r, "1", "2", "4"), "memory", one(r, "1Gi", "4Gi"), "pods", one(r, "2", "5"))
	b.Label("zone", one(r, "a", "b")).Label("size", one(r, "1", "3", "x"))
	maybe(r, func() {
		b.Taint(one(r, "k", "l"), one(r, "v", ""), one(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule))
	})
	if r.IntN(8) == 0 {
		b.Unschedulable()
	}
	return b.Obj()
}

// randomPod returns a pod with some requirements.
func randomPod(r *rand.Rand, name string) *fixture.PodBuilder {
	b := fixture.Pod(name).SchedulerName("p").Bare().Label("app", one(r, "x", "y")).Requests("cpu", one(r, "0", "250m", "1"), "memory", one(r, "0", "512Mi", "1Gi"))
	maybe(r, func() { b.InitRequests("cpu", one(r, "500m", "2")) })
	maybe(r, func() { b.SidecarRequests("memory", "512Mi") })
	maybe(r, func() { b.Overhead("cpu", "100m") })
	maybe(r, func() {
		b.HostPort(one(r, "", "10.0.0.1", "10.0.0.2"), one(r, corev1.ProtocolTCP, corev1.ProtocolUDP), one[int32](r, 80, 81))
	})
	maybe(r, func() { b.NodeSelector("zone", one(r, "a", "b")) })
	maybe(r, func() { b.RequireNodeAffinity(randomTerm(r), randomTerm(r)) })
	maybe(r, func() {
		b.RequirePodAntiAffinity(fixture.PodAffinityTerm(one(r, "zone", corev1.LabelHostname, "none"), "app", one(r, "x", "y")))
	})
	maybe(r, func() { b.Toleration(corev1.Toleration{Key: one(r, "k", "l"), Operator: corev1.TolerationOpExists}) })
	maybe(r, func() {
		b.Toleration(corev1.Toleration{Key: "k", Value: "v", Effect: one(r, "", corev1.TaintEffectNoSchedule)})
	})
	if r.IntN(8) == 0 {
		b.Toleration(corev1.Toleration{Operator: corev1.TolerationOpExists})
	}
	return b
}

func randomTerm(r *rand.Rand) corev1.NodeSelectorTerm {
	if r.IntN(6) == 0 {
		return fixture.NodeNameTerm(one(r, "n0", "n1"))
	}
	return fixture.NodeSelectorTerm(one(r,
		fixture.In("zone", "a"), fixture.NotIn("zone", "a"), fixture.NotIn("none", "a"), fixture.Exists("size"),
		corev1.NodeSelectorRequirement{Key: "none", Operator: corev1.NodeSelectorOpDoesNotExist},
		corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpGt, Values: []string{"2"}},
		corev1.NodeSelectorRequirement{Key: "size", Operator: corev1.NodeSelectorOpLt, Values: []string{"2"}},
	))
}

// newDefaultSandbox returns a sandbox with kube-scheduler's default plugins.
func newDefaultSandbox(t *testing.T) *sandbox.Scheduler {
	t.Helper()
	p := &v1alpha1.SchedulingProfile{}
	p.Name = "p"
	blueprint, rejection := compile.Profile(compile.Input{Profile: p, Registry: plugins.InTree()})
	if rejection != nil {
		t.Fatal(rejection.Message())
	}
	s, err := sandbox.New(t.Context(), sandbox.Options{Blueprint: blueprint, Registry: plugins.InTree()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Two implementations that share no code say the same of 2000 pods on three nodes each.
func TestFitAgreesWithThePlugins(t *testing.T) {
	const nodes, cases = 3, 2000
	s, r := newDefaultSandbox(t), rand.New(rand.NewPCG(1, 2))
	fits := 0
	for n := range cases {
		at, onNode := placed{nodes: map[string]*corev1.Node{}}, map[string][]*corev1.Pod{}
		for i := range nodes {
			node := randomNode(r, i)
			at.nodes[node.Name] = node
			s.SetNode(nil, node)
		}
		for i := range r.IntN(6) {
			other := randomPod(r, fmt.Sprintf("there-%d-%d", n, i)).On(fmt.Sprint("n", r.IntN(nodes))).Obj()
			at.pods = append(at.pods, other)
			onNode[other.Spec.NodeName] = append(onNode[other.Spec.NodeName], other)
			s.SetPod(nil, other)
		}
		pod := randomPod(r, fmt.Sprint("new-", n)).Obj()
		matrix, err := s.EvaluateAllNodes(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		for i := range matrix.Rows {
			row := &matrix.Rows[i]
			why := misfit(pod, at.nodes[row.Node], onNode[row.Node], nil)
			if why == "" {
				why = repelled(pod, at.nodes[row.Node], at)
			}
			if why == "" {
				fits++
			}
			if feasible := row.Feasible() && matrix.PreFilterStatus == nil; feasible != (why == "") {
				t.Fatalf("case %d, node %s: the plugins say %v (%v), this package says %q\npod %+v\nnode %+v", n, row.Node, row.Rejections, matrix.PreFilterStatus, why, pod.Spec, at.nodes[row.Node])
			}
		}
		for _, other := range at.pods {
			s.RemovePod(other)
		}
	}
	if fits < cases/10 || fits > nodes*cases*9/10 {
		t.Errorf("%d of %d nodes fit: too few or too many to compare", fits, nodes*cases)
	}
}
