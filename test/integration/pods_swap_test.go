package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A swap", func() {
	It("under a stream of 300 pods loses none and binds each once, by what ran", minute, func(ctx SpecContext) {
		const waves, each = 6, 50
		y, p := aYard(ctx), aProfile(ctx, neverFlushing, publishingEvery(1))
		seen := watching(ctx, y)
		for i := range 4 {
			aNode(ctx, y.node(fmt.Sprint("n", i)).Capacity("cpu", "64"))
		}
		expectReady(ctx, p)
		ran := map[string]int64{p.Status.Programmed.Hash: p.Generation}
		before := bindingsAnswered(ctx)
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "65"))
		gated := aPod(ctx, y.pod(p, "gated").SchedulingGate("example.com/quota"))

		var pods []*v1.Pod
		profile := p.DeepCopy() // the goroutine that swaps reads into p
		for wave := range waves {
			var swapped sync.WaitGroup
			swapped.Go(func() {
				defer GinkgoRecover()
				edit(ctx, p, naming(int32(wave+4)))
				expectReady(ctx, p)
			})
			for i := range each {
				pods = append(pods, aPod(ctx, y.pod(profile, fmt.Sprintf("web-%d-%d", wave, i)).Requests("cpu", "100m")))
			}
			swapped.Wait()
			ran[p.Status.Programmed.Hash] = p.Generation
		}
		Expect(ran).To(HaveLen(waves + 1))
		aNode(ctx, y.node("big").Capacity("cpu", "65"))
		apitest.Change(ctx, admin, gated, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })

		pods = append(pods, unfit, gated)
		admin.ExpectBound(ctx, pods...)
		decided := map[string]bool{}
		for _, pod := range pods {
			r := recordIn(pod)
			Expect(r.Node).To(Equal(pod.Spec.NodeName))
			Expect(ran).To(HaveKeyWithValue(r.Hash, r.Generation), "what decided about %s ran", pod.Name)
			decided[r.Hash] = true
			Expect(len(seen.nodes(pod))).To(BeNumerically("<=", 1), "%s has never been elsewhere", pod.Name)
		}
		Expect(len(decided)).To(BeNumerically(">", 2), "the swaps fell among the binds")
		before["201"] += len(pods)
		Expect(bindingsAnswered(ctx)).To(Equal(before), "a Binding a pod, and none was refused")
		Eventually(published(ctx, p)).Should(SatisfyAll(
			HaveField("Bound", BeEquivalentTo(len(pods))), HaveField("Errors", BeZero()), HaveField("DecisionsDropped", BeZero())))
		Eventually(waiting(p)).Should(BeZero())
	})

	for _, at := range []struct {
		sentence string
		point    func(*v1alpha1.Plugins) *v1alpha1.PluginSet
		sluice   *turnstile
		there    decision.QueueCounts
	}{
		{"in its cycle", atPreFilter, &sluices.preFilter, decision.QueueCounts{InFlight: 1}},
		{"waiting on Permit", atPermit, &sluices.permit, decision.QueueCounts{Waiting: 1}},
		{"in PreBind", atPreBind, &sluices.preBind, decision.QueueCounts{InFlight: 1}},
	} {
		It("lets a pod finish on the generation it began with: "+at.sentence, minute, func(ctx SpecContext) {
			y, p := aYard(ctx), aProfile(ctx, sluicedAt(at.point))
			aNode(ctx, y.node("n"))
			expectReady(ctx, p)
			old := p.Status.Programmed.DeepCopy()
			open := at.sluice.close()
			defer open()
			pod := aPod(ctx, y.pod(p, "web"))
			Eventually(waiting(p)).Should(Equal(at.there))

			edit(ctx, p, naming(1))
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Hash).NotTo(Equal(old.Hash))
			Expect(waiting(p)()).To(Equal(at.there))
			Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())

			open()
			r := recordOf(ctx, pod)
			Expect([]any{r.Hash, r.Generation, r.Attempts}).To(Equal([]any{old.Hash, old.Generation, 1}))
			r = recordOf(ctx, aPod(ctx, y.pod(p, "next")))
			Expect([]any{r.Hash, r.Generation}).To(Equal([]any{p.Status.Programmed.Hash, p.Generation}))
		})
	}

	It("leaves alone what another profile does beside it", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		apart, together := aProfile(ctx, scoringBy("LeastAllocated")), aProfile(ctx, scoringBy("MostAllocated"))
		expectReady(ctx, apart)
		expectReady(ctx, together)
		used, empty := aNode(ctx, y.node("used").Capacity("cpu", "4")), aNode(ctx, y.node("empty").Capacity("cpu", "4"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(apart, "first").Requests("cpu", "2").NodeSelector(v1.LabelHostname, used.Name)))

		near := recordOf(ctx, aPod(ctx, y.pod(together, "near").Requests("cpu", "1")))
		far := recordOf(ctx, aPod(ctx, y.pod(apart, "far").Requests("cpu", "1")))
		Expect([]string{near.Profile, near.Node, near.Hash}).To(Equal([]string{together.Name, used.Name, together.Status.Programmed.Hash}))
		Expect([]string{far.Profile, far.Node, far.Hash}).To(Equal([]string{apart.Name, empty.Name, apart.Status.Programmed.Hash}))

		By("and one of them is swapped")
		edit(ctx, together, scoringBy("LeastAllocated"))
		expectReady(ctx, together)
		Expect(recordOf(ctx, aPod(ctx, y.pod(together, "spread").Requests("cpu", "1"))).Node).To(Equal(empty.Name))
		Expect(recordOf(ctx, aPod(ctx, y.pod(apart, "as-before"))).Hash).To(Equal(apart.Status.Programmed.Hash))
	})
})

var _ = Describe("A pod in flight", func() {
	for _, end := range []struct {
		sentence string
		end      func(context.Context, *v1alpha1.SchedulingProfile)
		reason   string
	}{
		{"is paused", func(ctx context.Context, p *v1alpha1.SchedulingProfile) { edit(ctx, p, inState(v1alpha1.StatePaused)) }, "ProfilePaused"},
		{"is deleted", func(ctx context.Context, p *v1alpha1.SchedulingProfile) { Expect(admin.Delete(ctx, p)).To(Succeed()) }, "ProfileDeleted"},
	} {
		It("is bound although its profile "+end.sentence, minute, func(ctx SpecContext) {
			y, p := aYard(ctx), aProfile(ctx, sluicedAt(atPreBind))
			aNode(ctx, y.node("n").Capacity("cpu", "1"))
			unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "2"))
			expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
			open := sluices.preBind.close()
			defer open()
			pod := aPod(ctx, y.pod(p, "web"))
			Eventually(waiting(p)).Should(HaveField("InFlight", 1))
			end.end(ctx, p)
			expectHeld(ctx, end.reason, unfit)
			open()
			Expect(recordOf(ctx, pod).Profile).To(Equal(p.Name))
			expectHeld(ctx, end.reason, unfit)
		})

		It("that is refused after its profile "+end.sentence+" says so, and not Unschedulable", minute, func(ctx SpecContext) {
			y, p := aYard(ctx), aProfile(ctx, sluicedAt(atPreFilter))
			aNode(ctx, y.node("n").Capacity("cpu", "1"))
			expectReady(ctx, p)
			other := aPod(ctx, y.pod(p, "other").SchedulingGate("example.com/quota"))
			open := sluices.preFilter.close()
			defer open()
			pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))
			Eventually(waiting(p)).Should(HaveField("InFlight", 1))
			end.end(ctx, p)
			expectHeld(ctx, end.reason, other)
			open()
			// The ledger has no page of a profile that is deleted.
			Eventually(berth.Scheduler().Components().Queue.Counts).WithArguments(p.Name).Should(Equal(decision.QueueCounts{Held: 2}))
			Eventually(told(ctx, pod)).Should(ContainElement(ContainSubstring("FailedScheduling")), "its attempt came to its end")
			expectHeld(ctx, end.reason, pod)
		})
	}
})

// bindingsAnswered counts what kube-apiserver answered to Bindings, by status.
func bindingsAnswered(ctx context.Context) map[string]int {
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
