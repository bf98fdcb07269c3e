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
	It("has the decision in an annotation, with these keys", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, setTopScores(3))
		small, big := createNode(ctx, env.node("small").Capacity("cpu", "2")), createNode(ctx, env.node("big").Capacity("cpu", "8"))
		createNode(ctx, env.node("tiny").Capacity("cpu", "500m"))
		expectReady(ctx, p)
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "1"))

		r := boundRecord(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal(big.Name))
		Expect(r).To(Equal(decisionRecord{
			V: 1, Profile: p.Name, Generation: p.Generation, Hash: p.Status.Programmed.Hash, Epoch: r.Epoch,
			Node: big.Name, Evaluated: 3, Feasible: 2, Attempts: 1, Walk: r.Walk, Top: r.Top,
		}))
		Expect(r.Epoch).NotTo(BeNil(), "the suite has several leaders")
		Expect(r.Top).To(HaveExactElements(HaveField("Node", big.Name), HaveField("Node", small.Name)))
		for _, node := range r.Top {
			var total int64
			for _, share := range node.Plugins {
				total += share
			}
			Expect(node.Score).To(Equal(total), "a score is the sum of the plugins' scores")
		}
		var keys map[string]any
		Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &keys)).To(Succeed())
		Expect(slices.Collect(maps.Keys(keys))).To(ConsistOf(
			"v", "profile", "generation", "hash", "epoch", "node", "evaluated", "feasible", "attempts", "walk", "top"))
	})

	It("names its own node only under detail: Reasons, whatever topScores is", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, setTopScores(5), func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Detail = v1alpha1.DetailReasons })
		for i := range 3 {
			createNode(ctx, env.node(fmt.Sprint("n", i)))
		}
		pod := createPod(ctx, env.pod(p, "web"))
		r := boundRecord(ctx, pod)
		var keys map[string]any
		Expect(json.Unmarshal([]byte(pod.Annotations["berth.dev/decision"]), &keys)).To(Succeed())
		Expect(slices.Collect(maps.Keys(keys))).To(ConsistOf("v", "profile", "generation", "hash", "epoch", "node", "attempts", "walk"))
		Expect([]any{r.Profile, r.Node}).To(Equal([]any{p.Name, pod.Spec.NodeName}))
	})

	It("has the annotation from the write that bound it", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		watch := watchPods(ctx, env)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		Eventually(watch.versions(pod)).Should(ContainElement(HaveField("Spec.NodeName", Not(BeEmpty()))))
		for _, version := range watch.versions(pod)() {
			_, annotated := version.Annotations["berth.dev/decision"]
			Expect(annotated).To(Equal(version.Spec.NodeName != ""))
		}
		Expect(apitest.PodScheduled(pod)).To(Equal("True"))
	})

	It("has the annotation of the Binding, not that of its author", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web").Annotation("berth.dev/decision", `{"v":1,"node":"forged"}`).Annotation("team", "blue"))
		Expect(boundRecord(ctx, pod).Node).To(Equal(pod.Spec.NodeName))
		Expect(pod.Annotations).To(HaveKeyWithValue("team", "blue"))
	})

	It("has no annotation under annotate: Disabled", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, setAnnotate(v1alpha1.Disabled))
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web"))
		admin.ExpectBound(ctx, pod)
		Expect(pod.Annotations).To(BeEmpty())

		By("an annotation of its author is overwritten nevertheless, so that it does not pass for Berth's")
		forged := createPod(ctx, env.pod(p, "forged").Annotation("berth.dev/decision", `{"v":1,"node":"forged"}`))
		Expect(boundRecord(ctx, forged).Node).To(Equal(forged.Spec.NodeName))
	})

	DescribeTable("names as many of the best nodes as topScores says", func(ctx SpecContext, topScores int32, want int) {
		env, p := newTestEnv(ctx), createProfile(ctx, setTopScores(topScores))
		for i := range 4 {
			createNode(ctx, env.node(fmt.Sprint("n", i)).Capacity("cpu", fmt.Sprint(8-i)))
		}
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "1"))
		r := boundRecord(ctx, pod)
		Expect(r.Feasible).To(Equal(4))
		Expect(r.Top).To(HaveLen(want))
		Expect(slices.IsSortedFunc(r.Top, func(a, b decision.NodeScore) int { return int(b.Score - a.Score) })).To(BeTrue(), "best first")
		if want > 0 {
			Expect(r.Top[0].Node).To(Equal(pod.Spec.NodeName))
		}
	},
		Entry("none", minute, int32(0), 0),
		Entry("one", minute, int32(1), 1),
		Entry("more than there are nodes", minute, int32(10), 4),
	)

	It("has an annotation of at most 1 KiB: fewer of the best nodes, and all other keys", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, setTopScores(10))
		for i := range 10 {
			createNode(ctx, env.node(fmt.Sprint(strings.Repeat("long-", 40), i)).Label(v1.LabelHostname, fmt.Sprint("n", i)))
		}
		expectReady(ctx, p)
		pod := createPod(ctx, env.pod(p, "web"))
		r := boundRecord(ctx, pod)
		Expect(len(pod.Annotations["berth.dev/decision"])).To(BeNumerically("<=", 1024))
		Expect(r.Top).To(SatisfyAll(Not(BeEmpty()), HaveEach(HaveField("Node", ContainSubstring("long-")))))
		Expect(len(r.Top)).To(BeNumerically("<", 10))
		Expect(r.Node).To(Equal(pod.Spec.NodeName))
		Expect([]any{r.Profile, r.Hash, r.Feasible}).To(Equal([]any{p.Name, p.Status.Programmed.Hash, 10}))
	})

	It("has an Event that its profile reports", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		node := createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "web"))
		Eventually(podEvents(ctx, pod)).Should(ConsistOf(fmt.Sprintf(
			"Normal Scheduled Binding by %s: Successfully assigned %s/web to %s", p.Name, env.namespace, node.Name)))
	})

	// A clock cannot tell one request more from a slow machine.
	It("costs the API server one Binding and one Event", minute, func(ctx SpecContext) {
		const pods = 20
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		for i := range pods {
			createPod(ctx, env.pod(p, fmt.Sprint("web-", i)))
		}
		Eventually(func(g Gomega) {
			entries, err := auditLog.Entries()
			g.Expect(err).NotTo(HaveOccurred())
			requests := map[string]int{}
			for _, entry := range entries {
				if ref := entry.ObjectRef; ref.Namespace == env.namespace {
					requests[strings.TrimSuffix(fmt.Sprintf("%s %s/%s", entry.Verb, ref.Resource, ref.Subresource), "/")]++
				}
			}
			g.Expect(requests).To(Equal(map[string]int{"create pods/binding": pods, "create events": pods}))
		}).Should(Succeed())
	})

	It("can have a profile with spec: {}", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		p := &v1alpha1.SchedulingProfile{}
		p.Name = env.namespace
		_, err := cp.Kubectl(ctx, strings.NewReader(
			"{apiVersion: berth.dev/v1alpha1, kind: SchedulingProfile, metadata: {name: "+p.Name+"}, spec: {}}"), "create", "--filename=-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, p)).To(Succeed()) })
		createNode(ctx, env.node("tainted").Taint("team", "red", v1.TaintEffectNoSchedule))
		createNode(ctx, env.node("full").Capacity("cpu", "1"))
		right := createNode(ctx, env.node("right").Capacity("cpu", "4"))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))
		Expect(boundRecord(ctx, pod).Node).To(Equal(right.Name))
	})
})
