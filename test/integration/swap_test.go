package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A swap", func() {
	It("under a stream of 300 pods loses no pod, and each bind has the hash of a generation that ran", SpecTimeout(3*time.Minute), func(ctx SpecContext) {
		const waves, each = 6, 50
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush, publishEvery(1))
		watch := watchPods(ctx, env)
		for i := range 4 {
			createNode(ctx, env.node(fmt.Sprint("n", i)).Capacity("cpu", "64"))
		}
		expectReady(ctx, p)
		ran := map[string]int64{p.Status.Programmed.Hash: p.Generation}
		before := bindingResponsesAtRest(ctx)
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "65"))
		gated := createPod(ctx, env.pod(p, "gated").SchedulingGate("example.com/quota"))

		var pods []*v1.Pod
		profile := p.DeepCopy() // the goroutine that swaps writes to p
		for wave := range waves {
			var swapped sync.WaitGroup
			swapped.Go(func() {
				defer GinkgoRecover()
				editProfile(ctx, p, setTopScores(int32(wave+4)))
				expectReady(ctx, p)
			})
			for i := range each {
				pods = append(pods, createPod(ctx, env.pod(profile, fmt.Sprintf("web-%d-%d", wave, i)).Requests("cpu", "100m")))
			}
			swapped.Wait()
			ran[p.Status.Programmed.Hash] = p.Generation
		}
		Expect(ran).To(HaveLen(waves + 1))
		createNode(ctx, env.node("big").Capacity("cpu", "65"))
		apitest.Change(ctx, admin, gated, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })

		pods = append(pods, unfit, gated)
		admin.ExpectBound(ctx, pods...)
		decided := map[string]bool{}
		for _, pod := range pods {
			r := readRecord(pod)
			Expect(r.Node).To(Equal(pod.Spec.NodeName))
			Expect(ran).To(HaveKeyWithValue(r.Hash, r.Generation), "the generation that decided about %s ran", pod.Name)
			decided[r.Hash] = true
			Expect(len(watch.nodes(pod))).To(BeNumerically("<=", 1), "%s has had one node only", pod.Name)
		}
		Expect(len(decided)).To(BeNumerically(">", 2), "pods were bound before and after swaps")
		Eventually(publishedTotals(ctx, p)).Should(SatisfyAll(
			HaveField("Bound", BeEquivalentTo(len(pods))), HaveField("Errors", BeZero()), HaveField("DecisionsDropped", BeZero())))
		Eventually(queueCounts(p)).Should(BeZero())
		before["201"] += len(pods)
		// The API server counts a request after it has answered it.
		Eventually(bindingResponses).WithArguments(ctx).Should(Equal(before), "one Binding for each pod, and none was rejected")
	})

	for _, at := range []struct {
		sentence string
		point    func(*v1alpha1.Plugins) *v1alpha1.PluginSet
		sluice   *gate
		there    decision.QueueCounts
	}{
		{"in the scheduling cycle", preFilterSet, &gates.preFilter, decision.QueueCounts{InFlight: 1}},
		{"waiting on Permit", permitSet, &gates.permit, decision.QueueCounts{Waiting: 1}},
		{"in PreBind", preBindSet, &gates.preBind, decision.QueueCounts{InFlight: 1}},
	} {
		It("lets a pod finish with the generation of its attempt: "+at.sentence, minute, func(ctx SpecContext) {
			env, p := newTestEnv(ctx), createProfile(ctx, blockAt(at.point))
			createNode(ctx, env.node("n"))
			expectReady(ctx, p)
			old := p.Status.Programmed.DeepCopy()
			open := at.sluice.shutGate()
			defer open()
			pod := createPod(ctx, env.pod(p, "web"))
			Eventually(queueCounts(p)).Should(Equal(at.there))

			editProfile(ctx, p, setTopScores(1))
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Hash).NotTo(Equal(old.Hash))
			Expect(queueCounts(p)()).To(Equal(at.there))
			Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())

			open()
			r := boundRecord(ctx, pod)
			Expect([]any{r.Hash, r.Generation, r.Attempts}).To(Equal([]any{old.Hash, old.Generation, 1}))
			r = boundRecord(ctx, createPod(ctx, env.pod(p, "next")))
			Expect([]any{r.Hash, r.Generation}).To(Equal([]any{p.Status.Programmed.Hash, p.Generation}))
		})
	}

	It("does not affect another profile", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		apart, together := createProfile(ctx, useScoringStrategy("LeastAllocated")), createProfile(ctx, useScoringStrategy("MostAllocated"))
		expectReady(ctx, apart)
		expectReady(ctx, together)
		used, empty := createNode(ctx, env.node("used").Capacity("cpu", "4")), createNode(ctx, env.node("empty").Capacity("cpu", "4"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(apart, "first").Requests("cpu", "2").NodeSelector(v1.LabelHostname, used.Name)))

		near := boundRecord(ctx, createPod(ctx, env.pod(together, "near").Requests("cpu", "1")))
		far := boundRecord(ctx, createPod(ctx, env.pod(apart, "far").Requests("cpu", "1")))
		Expect([]string{near.Profile, near.Node, near.Hash}).To(Equal([]string{together.Name, used.Name, together.Status.Programmed.Hash}))
		Expect([]string{far.Profile, far.Node, far.Hash}).To(Equal([]string{apart.Name, empty.Name, apart.Status.Programmed.Hash}))

		By("one of them is swapped")
		editProfile(ctx, together, useScoringStrategy("LeastAllocated"))
		expectReady(ctx, together)
		Expect(boundRecord(ctx, createPod(ctx, env.pod(together, "spread").Requests("cpu", "1"))).Node).To(Equal(empty.Name))
		Expect(boundRecord(ctx, createPod(ctx, env.pod(apart, "as-before"))).Hash).To(Equal(apart.Status.Programmed.Hash))
	})
})

var _ = Describe("A pod in flight", func() {
	for _, end := range []struct {
		sentence string
		end      func(context.Context, *v1alpha1.SchedulingProfile)
		reason   string
	}{
		{"is paused", func(ctx context.Context, p *v1alpha1.SchedulingProfile) {
			editProfile(ctx, p, setState(v1alpha1.StatePaused))
		}, "ProfilePaused"},
		{"is deleted", func(ctx context.Context, p *v1alpha1.SchedulingProfile) { Expect(admin.Delete(ctx, p)).To(Succeed()) }, "ProfileDeleted"},
	} {
		It("is bound although its profile "+end.sentence, minute, func(ctx SpecContext) {
			env, p := newTestEnv(ctx), createProfile(ctx, blockAt(preBindSet))
			createNode(ctx, env.node("n").Capacity("cpu", "1"))
			unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "2"))
			expectReason(ctx, v1.PodReasonUnschedulable, unfit)
			open := gates.preBind.shutGate()
			defer open()
			pod := createPod(ctx, env.pod(p, "web"))
			Eventually(queueCounts(p)).Should(HaveField("InFlight", 1))
			end.end(ctx, p)
			expectReason(ctx, end.reason, unfit)
			open()
			Expect(boundRecord(ctx, pod).Profile).To(Equal(p.Name))
			expectReason(ctx, end.reason, unfit)
		})

		It("that is rejected after its profile "+end.sentence+" has that reason, and not Unschedulable", minute, func(ctx SpecContext) {
			env, p := newTestEnv(ctx), createProfile(ctx, blockAt(preFilterSet))
			createNode(ctx, env.node("n").Capacity("cpu", "1"))
			expectReady(ctx, p)
			other := createPod(ctx, env.pod(p, "other").SchedulingGate("example.com/quota"))
			open := gates.preFilter.shutGate()
			defer open()
			pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))
			Eventually(queueCounts(p)).Should(HaveField("InFlight", 1))
			end.end(ctx, p)
			expectReason(ctx, end.reason, other)
			open()
			// The ledger does not have deleted profiles.
			Eventually(berth.Scheduler().Components().Queue.Counts).WithArguments(p.Name).Should(Equal(decision.QueueCounts{Held: 2}))
			Eventually(podEvents(ctx, pod)).Should(ContainElement(ContainSubstring("FailedScheduling")), "its attempt has ended")
			expectReason(ctx, end.reason, pod)
		})
	}
})

// bindingResponsesAtRest is bindingResponses once the Bindings of earlier specs are counted.
func bindingResponsesAtRest(ctx context.Context) map[string]int {
	GinkgoHelper()
	var responses map[string]int
	Eventually(func() bool {
		earlier := responses
		responses = bindingResponses(ctx)
		return maps.Equal(earlier, responses)
	}).Should(BeTrue())
	return responses
}

// bindingResponses counts the API server's responses to Bindings by status code.
func bindingResponses(ctx context.Context) map[string]int {
	GinkgoHelper()
	text, err := cp.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	out := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(line, `subresource="binding"`) {
			continue
		}
		_, code, _ := strings.Cut(line, `code="`)
		code, _, _ = strings.Cut(code, `"`)
		var n int
		_, err := fmt.Sscan(line[strings.LastIndex(line, " "):], &n)
		Expect(err).NotTo(HaveOccurred())
		out[code] += n
	}
	return out
}
