package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("A trial", func() {
	It("tells in the status who fits and who would lose the place, and keeps nobody from swapping", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "4"))
		expectReady(ctx, p)
		expectRuns(ctx, aPod(ctx, y.pod(p, "liked")), aPod(ctx, y.pod(p, "a").Label("picky", "refuses")), aPod(ctx, y.pod(p, "b").Label("picky", "refuses")))
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "5"))
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)

		edit(ctx, p, pickily)
		expectReady(ctx, p)
		trial := p.Status.Trial
		Expect(trial).NotTo(BeNil())
		Expect(trial.Hash).To(Equal(p.Status.Programmed.Hash))
		Expect([]any{trial.Sampled, trial.FitBefore, trial.FitAfter}).To(HaveExactElements(int64(4), HaveValue(BeEquivalentTo(3)), int64(1)))
		Expect(trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: y.name, Pod: "a"}, v1alpha1.PodReference{Namespace: y.name, Pod: "b"}))
		Expect(trial.Time.IsZero()).To(BeFalse())
		Expect(message(p, v1alpha1.ConditionProgrammed)).To(SatisfyAll(
			ContainSubstring("on 4 of its pods: 1 fit, 3 did before; lost: "), ContainSubstring("1 not a pod that is liked")))
		Eventually(eventsOf(ctx, p)).Should(ContainElement("Warning PodsLost Trial"))

		By("a remedy")
		edit(ctx, p, noPlugins)
		expectReady(ctx, p)
		Expect([]any{p.Status.Trial.FitBefore, p.Status.Trial.FitAfter, p.Status.Trial.Lost}).To(HaveExactElements(HaveValue(BeEquivalentTo(1)), int64(3), BeEmpty()))
	})

	for _, fault := range []struct{ does, says string }{
		{"panics", `plugin "Picky" panicked in Filter: no map for odd`},
		{"errs", "the inventory does not answer"},
		{"hangs", `plugin "Picky" did not come back from Filter within 2s`},
	} {
		It("finds a plugin that "+fault.does+" only when it is asked about a certain pod", minute, func(ctx SpecContext) {
			y, p := aYard(ctx), aProfile(ctx)
			aNode(ctx, y.node("n"))
			expectReady(ctx, p)
			before := p.Status.Programmed.DeepCopy()
			odd := aPod(ctx, y.pod(p, "odd").Label("picky", fault.does))
			expectRuns(ctx, odd)

			edit(ctx, p, pickily)
			Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
				"Programmed False TrialFailed", "Ready False TrialFailed", "Stalled True TrialFailed"))
			Expect(message(p, v1alpha1.ConditionReady)).To(SatisfyAll(
				HavePrefix("generation 1 keeps running since "), ContainSubstring("generation 2 failed: on trial"),
				ContainSubstring("pod "+y.name+"/odd: "), ContainSubstring(fault.says)))
			Expect(p.Status.Programmed).To(Equal(before))
			Expect(p.Status.Trial).NotTo(BeNil())
			Expect(p.Status.Trial.Hash).NotTo(Equal(before.Hash))
			Expect(recordOf(ctx, aPod(ctx, y.pod(p, "next"))).Hash).To(Equal(before.Hash))
			Eventually(eventsOf(ctx, p)).Should(ContainElement("Warning TrialFailed Programmed"))
			Expect(kubectl(ctx, "get", "sprof", p.Name, "-o", "wide")).To(SatisfyAll(ContainSubstring("TrialFailed"), ContainSubstring("pod "+y.name+"/odd")))

			By("and runs when the pod is gone")
			admin.Remove(ctx, odd)
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
		})
	}

	It("finds a fault in a profile that is new to pods that wait for it", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		aNode(ctx, y.node("n"))
		odd := aPod(ctx, y.pod(&v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: y.name}}, "odd").Label("picky", "panics"))
		expectSeen(ctx, odd)
		p := aProfileNamed(ctx, y.name, pickily)
		Eventually(now(ctx, p)).Should(ContainElements("Programmed False TrialFailed", "Ready False TrialFailed"))
		Expect(message(p, v1alpha1.ConditionReady)).To(HavePrefix("nothing runs; generation 1 failed: on trial its plugins failed for 1 of 1 pod: "))
		Expect(p.Status.Trial.FitBefore).To(BeNil())
	})

	It("does not hold a pod against a change that what runs fails about, too", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, pickily)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		odd := aPod(ctx, y.pod(p, "odd").Label("picky", "errs"))
		Eventually(admin.Standing(ctx, odd)).Should(ContainSubstring("SchedulerError"))
		edit(ctx, p, naming(1))
		expectReady(ctx, p)
		Expect(p.Status.Trial.Sampled).To(BeEquivalentTo(1))
	})

	It("is shown before a change is approved whose profile is Manual", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		aNode(ctx, y.node("n"))
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Trial).To(HaveField("Sampled", BeZero()))
		approve(ctx, p)
		expectReady(ctx, p)
		expectRuns(ctx, aPod(ctx, y.pod(p, "a").Label("picky", "refuses")))

		edit(ctx, p, pickily)
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect([]any{p.Status.Trial.Sampled, p.Status.Trial.FitBefore, p.Status.Trial.FitAfter}).To(HaveExactElements(int64(1), HaveValue(BeEquivalentTo(1)), int64(0)))
		Expect(p.Status.Trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: y.name, Pod: "a"}))
		Expect(message(p, v1alpha1.ConditionReady)).To(MatchRegexp(
			`generation 2 with hash %s was tried at \d\d:\d\d on 1 of its pods: 0 fit, 1 did before; lost: %s/a \(.*\); it waits for approval: kubectl `, p.Status.Trial.Hash, y.name))
		list, err := kubectl(ctx, "get", "controllerrevisions", "-n", namespace, "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(list).NotTo(ContainSubstring(p.Name+"-"+p.Status.Trial.Hash), "what never ran is no revision")
		approve(ctx, p)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(p.Status.Trial.Hash))
	})

	It("refuses the approval of what fails it", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		expectRuns(ctx, aPod(ctx, y.pod(p, "odd").Label("picky", "panics")))
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual; pickily(s) })
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False TrialFailed"))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, v1alpha1.AnnotationApprovedHash+"="+p.Status.Trial.Hash)).Error().NotTo(HaveOccurred())
		Consistently(now(ctx, p), "2s").Should(ContainElement("Programmed False TrialFailed"))
	})
})

// expectSeen waits until the manager has seen pods as they are.
func expectSeen(ctx SpecContext, pods ...*v1.Pod) {
	GinkgoHelper()
	for _, pod := range pods {
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			seen, err := berth.Informers().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(seen.ResourceVersion).To(Equal(pod.ResourceVersion))
		}).Should(Succeed())
	}
}

// expectRuns waits until pods are bound, and the manager knows.
func expectRuns(ctx SpecContext, pods ...*v1.Pod) {
	GinkgoHelper()
	admin.ExpectBound(ctx, pods...)
	expectSeen(ctx, pods...)
}
