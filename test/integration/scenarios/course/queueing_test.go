package course

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// requeueCase is pods that fit on no node, a change, and which of them it requeues.
type requeueCase struct {
	nodes []*fixture.NodeBuilder
	// existing pods have a node.
	existing []*fixture.PodBuilder
	// refused pods fit on no node. why is a part of the condition's message of each.
	refused []*fixture.PodBuilder
	why     string
	change  func(ctx context.Context)
	// requeued has the names of the pods that are requeued, separated by blanks. The others
	// must not be.
	requeued string
}

// requeueSpecs runs each case twice: as it is, and with a swap of the profile before the
// change, by an edit that changes no plugin. The pods are unschedulable again before the
// change, whatever the swap did.
func requeueSpecs(table map[string]requeueCase) {
	for _, sentence := range slices.Sorted(maps.Keys(table)) {
		It(sentence, minute, func(ctx SpecContext) { table[sentence].run(ctx, false) })
		It(sentence+", after a swap as well", minute, func(ctx SpecContext) { table[sentence].run(ctx, true) })
	}
}

// run blocks the scheduling loop during the change, so that no pod is popped and no pod's
// attempt requeues another.
func (w requeueCase) run(ctx context.Context, swapped bool) {
	GinkgoHelper()
	p := createProfile(ctx)
	for _, node := range w.nodes {
		createNode(ctx, node)
	}
	for _, pod := range w.existing {
		createPod(ctx, p, pod)
	}
	waitForQueue(ctx)
	pods := map[string]*v1.Pod{}
	for _, builder := range w.refused {
		pod := createPod(ctx, p, builder)
		pods[pod.Name] = pod
		Eventually(admin.PodScheduled(ctx, pod)).Should(SatisfyAll(HavePrefix("False Unschedulable"), ContainSubstring(w.why)), pod.Name)
	}
	if swapped {
		swapProfile(ctx, p, setTopScores(1))
	}
	Eventually(queueCounts(p)).Should(HaveField("Unschedulable", len(pods)))

	release := stopLoop(ctx)
	before := map[string]int{}
	for name, pod := range pods {
		before[name] = attempts(p, pod)()
	}
	w.change(ctx)
	waitForQueue(ctx)
	places, want := map[string]string{}, map[string]string{}
	for name, pod := range pods {
		places[name], want[name] = requeueState(queuePlace(pod)()), "stays"
	}
	for _, name := range strings.Fields(w.requeued) {
		want[name] = "requeued"
	}
	Expect(places).To(Equal(want))

	release()
	for _, name := range strings.Fields(w.requeued) {
		Eventually(attempts(p, pods[name])).Should(BeNumerically(">", before[name]), name)
	}
}

func requeueState(place queue.Place) string {
	switch place {
	case queue.Active, queue.Backoff:
		return "requeued"
	case queue.Unschedulable:
		return "stays"
	}
	return string(place)
}

// Changes by the names of objects.

// addNode creates a node.
func addNode(node *fixture.NodeBuilder) func(context.Context) {
	return func(ctx context.Context) { createNode(ctx, node) }
}

// deleteNode deletes a node.
func deleteNode(name string) func(context.Context) {
	return func(ctx context.Context) {
		admin.Remove(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

// updateNode sets a node's labels, spec and status.
func updateNode(node *fixture.NodeBuilder) func(context.Context) {
	return func(ctx context.Context) {
		want := node.Obj()
		now := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: want.Name}}
		apitest.Change(ctx, admin, now, func(node *v1.Node) { node.Labels, node.Spec = want.Labels, want.Spec })
		now.Status = want.Status
		Expect(admin.Status().Update(ctx, now)).To(Succeed())
	}
}

// deletePod deletes a pod.
func deletePod(name string) func(context.Context) {
	return func(ctx context.Context) { admin.Remove(ctx, podNamed(name)) }
}

// addBoundPod creates a pod that has a node.
func addBoundPod(builder *fixture.PodBuilder) func(context.Context) {
	return func(ctx context.Context) { createPod(ctx, sentinelProfile, builder) }
}

// updatePod edits a pod.
func updatePod(name string, edit func(*v1.Pod)) func(context.Context) {
	return func(ctx context.Context) { apitest.Change(ctx, admin, podNamed(name), edit) }
}

// setPodLabels replaces a pod's labels.
func setPodLabels(name string, labels ...string) func(context.Context) {
	return updatePod(name, func(pod *v1.Pod) { pod.Labels = fixture.LabelSelector(labels...).MatchLabels })
}

// resizePod sets the requests of a pod's only container.
func resizePod(name string, pairs ...string) func(context.Context) {
	return func(ctx context.Context) {
		GinkgoHelper()
		pod := podNamed(name)
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		pod.Spec.Containers[0].Resources.Requests = fixture.Resources(pairs...)
		Expect(admin.SubResource("resize").Update(ctx, pod)).To(Succeed())
	}
}

func podNamed(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// affinityPod returns a pod with required affinity to pods with the label in its domain of
// the topology, antiAffinityPod one with anti-affinity.
func affinityPod(name, topology, key string) *fixture.PodBuilder {
	return pod(name).RequirePodAffinity(fixture.PodAffinityTerm(topology, key, "yes"))
}

func antiAffinityPod(name, topology, key string) *fixture.PodBuilder {
	return pod(name).RequirePodAntiAffinity(fixture.PodAffinityTerm(topology, key, "yes"))
}

var _ = Describe("A pod that was rejected for affinity between pods is requeued", func() {
	const (
		anti     = "didn't match pod anti-affinity rules"
		affinity = "didn't match pod affinity rules"
	)
	rack := func(name string) *fixture.NodeBuilder { return node(name).Label("rack", name) }
	requeueSpecs(map[string]requeueCase{
		"when a node is created for pods with anti-affinity to each other": {
			nodes: nodes{rack("n")}, why: anti,
			existing: pods{antiAffinityPod("old", "rack", "red").Label("red", "yes").On("n")},
			refused:  pods{antiAffinityPod("a", "rack", "red").Label("red", "yes")},
			change:   addNode(rack("m")),
			requeued: "a",
		},
		"when a pod loses the label that its anti-affinity matches": {
			nodes: nodes{rack("n")}, why: anti,
			existing: pods{pod("old").Label("red", "yes").Label("blue", "yes").On("n")},
			refused:  pods{antiAffinityPod("from-red", "rack", "red").Label("red", "yes"), antiAffinityPod("from-blue", "rack", "blue").Label("blue", "yes")},
			change:   setPodLabels("old", "blue", "yes"),
			requeued: "from-red",
		},
		"when the pod that its anti-affinity matches is deleted": {
			nodes: nodes{rack("n")}, why: anti,
			existing: pods{pod("red").Label("red", "yes").On("n"), pod("blue").Label("blue", "yes").On("n")},
			refused:  pods{antiAffinityPod("from-red", "rack", "red").Label("red", "yes"), antiAffinityPod("from-blue", "rack", "blue").Label("blue", "yes")},
			change:   deletePod("red"),
			requeued: "from-red",
		},
		"when the pod whose anti-affinity matches it is deleted": {
			nodes: nodes{rack("n")}, why: "didn't satisfy existing pods anti-affinity rules",
			existing: pods{antiAffinityPod("no-red", "rack", "red").On("n"), antiAffinityPod("no-blue", "rack", "blue").On("n")},
			refused:  pods{pod("red").Label("red", "yes"), pod("blue").Label("blue", "yes")},
			change:   deletePod("no-red"),
			requeued: "red",
		},
		"when a pod gets the label that its affinity matches": {
			nodes: nodes{rack("n")}, why: affinity,
			existing: pods{pod("old").On("n")},
			refused:  pods{affinityPod("to-red", "rack", "red"), affinityPod("to-blue", "rack", "blue")},
			change:   setPodLabels("old", "red", "yes"),
			requeued: "to-red",
		},
		"when a node with the topology key of its affinity is created": {
			nodes: nodes{rack("n")}, why: affinity,
			refused:  pods{affinityPod("in-row", "row", "red"), affinityPod("in-hall", "hall", "red")},
			change:   addNode(node("m").Label("row", "1")),
			requeued: "in-row",
		},
		"when a node gets the topology key of its affinity, or another value of it": {
			nodes: nodes{node("n").Label("hall", "1"), node("m").Label("hall", "2").Label("group", "b")}, why: affinity,
			existing: pods{pod("old").Label("red", "yes").On("n")},
			refused: pods{
				affinityPod("in-rack", "rack", "red").Label("red", "yes"), affinityPod("in-row", "row", "red").Label("red", "yes"),
				affinityPod("in-hall", "hall", "red").NodeSelector("group", "b"),
			},
			change: updateNode(node("n").Label("rack", "n").Label("hall", "2")),
			// kube-scheduler does not requeue in-row: see docs/parity.md for what requeues
			// such a pod here.
			requeued: "in-rack in-row in-hall",
		},
		"when a node loses the topology key of its anti-affinity, or gets another value of it": {
			nodes: nodes{rack("n").Label("row", "1").Label("hall", "1")}, why: anti,
			existing: pods{pod("old").Label("red", "yes").On("n")},
			refused: pods{
				antiAffinityPod("in-rack", "rack", "red").Label("red", "yes"), antiAffinityPod("in-row", "row", "red").Label("red", "yes"),
				antiAffinityPod("in-hall", "hall", "red").Label("red", "yes"),
			},
			change: updateNode(node("n").Label("row", "2").Label("hall", "1")),
			// kube-scheduler does not requeue in-hall, as above.
			requeued: "in-rack in-row in-hall",
		},
		"when a node is created, with the topology key of its anti-affinity or without": {
			nodes: nodes{rack("n").Label("row", "1")}, why: anti,
			existing: pods{pod("old").Label("red", "yes").On("n")},
			refused:  pods{antiAffinityPod("in-rack", "rack", "red"), antiAffinityPod("in-row", "row", "red")},
			change:   addNode(node("m").Label("row", "1")),
			requeued: "in-rack in-row",
		},
	})
})

// spreadPod returns a pod with a hard constraint on the pods with the label, and
// minDomains.
func spreadPod(name, topology, key string, domains int32) *fixture.PodBuilder {
	constraint := fixture.HardSpreadConstraint(topology, key, "yes")
	constraint.MinDomains = &domains
	return pod(name).Label(key, "yes").Spread(constraint)
}

var _ = Describe("A pod that was rejected for its topology spread constraints is requeued", func() {
	const why = "didn't match pod topology spread constraints"
	rack := func(name string) *fixture.NodeBuilder { return node(name).Label("rack", "1") }
	two := pods{pod("red").Label("red", "yes").On("n"), pod("blue").Label("blue", "yes").On("n")}
	requeueSpecs(map[string]requeueCase{
		"when a pod that they count is bound": {
			nodes: nodes{rack("n")}, existing: two, why: why,
			refused:  pods{spreadPod("of-red", "rack", "red", 3), spreadPod("of-blue", "rack", "blue", 3)},
			change:   addBoundPod(pod("new").Label("red", "yes").On("n")),
			requeued: "of-red",
		},
		"when a pod loses the label that they count": {
			nodes: nodes{rack("n")}, existing: two, why: why,
			refused:  pods{spreadPod("of-red", "rack", "red", 3), spreadPod("of-blue", "rack", "blue", 3)},
			change:   setPodLabels("red", "green", "yes"),
			requeued: "of-red",
		},
		"when a pod that they count is deleted": {
			nodes: nodes{rack("n")}, existing: two, why: why,
			refused:  pods{spreadPod("of-red", "rack", "red", 2), spreadPod("of-blue", "rack", "blue", 3)},
			change:   deletePod("red"),
			requeued: "of-red",
		},
		"when a node with their topology key is created": {
			nodes: nodes{rack("n"), node("m").Label("row", "1")}, why: why,
			existing: pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused:  pods{spreadPod("over-racks", "rack", "red", 2), spreadPod("over-rows", "row", "red", 2)},
			change:   addNode(rack("o")),
			requeued: "over-racks",
		},
		"when a node gets or loses their topology key, or gets another value of it": {
			nodes: nodes{
				rack("n").Label("hall", "1").Label("floor", "1"), rack("m").Label("hall", "1").Label("floor", "1"),
			}, why: why,
			existing: pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused: pods{
				spreadPod("over-racks", "rack", "red", 3), spreadPod("over-rows", "row", "red", 3), spreadPod("over-halls", "hall", "red", 3),
				spreadPod("over-sites", "site", "red", 3), spreadPod("over-floors", "floor", "red", 3),
			},
			change:   updateNode(node("m").Label("row", "1").Label("hall", "1").Label("floor", "2")),
			requeued: "over-racks over-rows over-floors",
		},
		"when a node with their topology key is deleted": {
			nodes: nodes{rack("n"), node("m").Label("row", "1")}, why: why,
			existing: pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused:  pods{spreadPod("over-racks", "rack", "red", 3), spreadPod("over-rows", "row", "red", 3)},
			change:   deleteNode("m"),
			requeued: "over-rows",
		},
		"when the taint of a node with their topology key changes": {
			nodes: nodes{rack("n"), node("m").Label("row", "1"), taintedNode("o", "away").Label("row", "1")}, why: why,
			existing: pods{pod("one").Label("red", "yes").On("n"), pod("other").Label("red", "yes").On("m")},
			refused:  pods{spreadPod("over-racks", "rack", "red", 3), spreadPod("over-rows", "row", "red", 3).Toleration(toleration("near"))},
			change: updateNode(node("o").Label("row", "1").Mutate(func(node *v1.Node) {
				node.Spec.Taints = []v1.Taint{{Key: "near", Value: "by", Effect: v1.TaintEffectNoSchedule}}
			})),
			requeued: "over-rows",
		},
	})
})
