package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A bound pod", func() {
	It("says what decided about it, key by key", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, naming(3))
		small, big := aNode(ctx, y.node("small").Capacity("cpu", "2")), aNode(ctx, y.node("big").Capacity("cpu", "8"))
		aNode(ctx, y.node("tiny").Capacity("cpu", "500m"))
		expectReady(ctx, p)
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "1"))

		r := recordOf(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal(big.Name))
		Expect(r).To(Equal(record{
			V: 1, Profile: p.Name, Generation: p.Generation, Hash: p.Status.Programmed.Hash, Epoch: r.Epoch,
			Node: big.Name, Evaluated: 3, Feasible: 2, Attempts: 1, Walk: r.Walk, Top: r.Top,
		}))
		Expect(r.Epoch).NotTo(BeNil(), "it counts the leaders of the suite")
		Expect(r.Top).To(HaveExactElements(HaveField("Node", big.Name), HaveField("Node", small.Name)))
		for _, node := range r.Top {
			var total int64
			for _, share := range node.Plugins {
				total += share
			}
			Expect(node.Score).To(Equal(total), "a score is the sum of its plugins' shares")
		}
		var keys map[string]any
		Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &keys)).To(Succeed())
		Expect(slices.Collect(maps.Keys(keys))).To(ConsistOf(
			"v", "profile", "generation", "hash", "epoch", "node", "evaluated", "feasible", "attempts", "walk", "top"))
	})

	It("names its own node alone under detail: Reasons, whatever topScores says", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, naming(5), func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Detail = v1alpha1.DetailReasons })
		for i := range 3 {
			aNode(ctx, y.node(fmt.Sprint("n", i)))
		}
		pod := aPod(ctx, y.pod(p, "web"))
		r := recordOf(ctx, pod)
		var keys map[string]any
		Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &keys)).To(Succeed())
		Expect(slices.Collect(maps.Keys(keys))).To(ConsistOf("v", "profile", "generation", "hash", "epoch", "node", "attempts", "walk"))
		Expect([]any{r.Profile, r.Node}).To(Equal([]any{p.Name, pod.Spec.NodeName}))
	})

	It("carries it from the very write that bound it", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		seen := watching(ctx, y)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		Eventually(seen.versions(pod)).Should(ContainElement(HaveField("Spec.NodeName", Not(BeEmpty()))))
		for _, version := range seen.versions(pod)() {
			_, annotated := version.Annotations["berth.dev/decision"]
			Expect(annotated).To(Equal(version.Spec.NodeName != ""))
		}
		Expect(apitest.Scheduled(pod)).To(Equal("True"))
	})

	It("carries the bind's word, not its author's", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web").Annotation("berth.dev/decision", `{"v":1,"node":"forged"}`).Annotation("team", "blue"))
		Expect(recordOf(ctx, pod).Node).To(Equal(pod.Spec.NodeName))
		Expect(pod.Annotations).To(HaveKeyWithValue("team", "blue"))
	})

	It("has no annotation under annotate: Disabled", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, annotating(v1alpha1.Disabled))
		aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		Expect(pod.Annotations).To(BeEmpty())

		By("but its author's is overwritten even then, so that it is not taken for Berth's")
		forged := aPod(ctx, y.pod(p, "forged").Annotation("berth.dev/decision", `{"v":1,"node":"forged"}`))
		Expect(recordOf(ctx, forged).Node).To(Equal(forged.Spec.NodeName))
	})

	DescribeTable("names as many of the best nodes as topScores says", func(ctx SpecContext, topScores int32, want int) {
		y, p := aYard(ctx), aProfile(ctx, naming(topScores))
		for i := range 4 {
			aNode(ctx, y.node(fmt.Sprint("n", i)).Capacity("cpu", fmt.Sprint(8-i)))
		}
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "1"))
		r := recordOf(ctx, pod)
		Expect(r.Feasible).To(Equal(4))
		Expect(r.Top).To(HaveLen(want))
		Expect(slices.IsSortedFunc(r.Top, func(a, b decision.NodeScore) int { return int(b.Score - a.Score) })).To(BeTrue(), "best first")
		if want > 0 {
			Expect(r.Top[0].Node).To(Equal(pod.Spec.NodeName))
		}
	},
		Entry("none", minute, int32(0), 0),
		Entry("one", minute, int32(1), 1),
		Entry("more than there are", minute, int32(10), 4),
	)

	It("keeps its annotation within 1 KiB: the best nodes shrink, the keys stay", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, naming(10))
		for i := range 10 {
			aNode(ctx, y.node(fmt.Sprint(strings.Repeat("long-", 40), i)).Label(v1.LabelHostname, fmt.Sprint("n", i)))
		}
		expectReady(ctx, p)
		pod := aPod(ctx, y.pod(p, "web"))
		r := recordOf(ctx, pod)
		Expect(len(pod.Annotations["berth.dev/decision"])).To(BeNumerically("<=", 1024))
		Expect(r.Top).To(SatisfyAll(Not(BeEmpty()), HaveEach(HaveField("Node", ContainSubstring("long-")))))
		Expect(len(r.Top)).To(BeNumerically("<", 10))
		Expect(r.Node).To(Equal(pod.Spec.NodeName))
		Expect([]any{r.Profile, r.Hash, r.Feasible}).To(Equal([]any{p.Name, p.Status.Programmed.Hash, 10}))
	})

	It("is announced by an Event that its profile reports", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		node := aNode(ctx, y.node("n"))
		pod := aPod(ctx, y.pod(p, "web"))
		Eventually(told(ctx, pod)).Should(ConsistOf(fmt.Sprintf(
			"Normal Scheduled Binding by %s: Successfully assigned %s/web to %s", p.Name, y.name, node.Name)))
	})

	It("can come from a profile with spec: {}, written as users write it", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		p := &v1alpha1.SchedulingProfile{}
		p.Name = y.name
		_, err := cp.Kubectl(ctx, strings.NewReader(
			"{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: "+p.Name+"}, spec: {}}"), "create", "--filename=-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, p)).To(Succeed()) })
		aNode(ctx, y.node("tainted").Taint("team", "red", v1.TaintEffectNoSchedule))
		aNode(ctx, y.node("full").Capacity("cpu", "1"))
		right := aNode(ctx, y.node("right").Capacity("cpu", "4"))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))
		Expect(recordOf(ctx, pod).Node).To(Equal(right.Name))
	})
})
