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
	It("lists in the status the pods that would no longer fit, and does not prevent the swap", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "4"))
		expectReady(ctx, p)
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "plain")), createPod(ctx, env.pod(p, "a").Label("faulty", "refuses")), createPod(ctx, env.pod(p, "b").Label("faulty", "refuses")))
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "5"))
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)

		editProfile(ctx, p, enableFaulty)
		expectReady(ctx, p)
		trial := p.Status.Trial
		Expect(trial).NotTo(BeNil())
		Expect(trial.Hash).To(Equal(p.Status.Programmed.Hash))
		Expect([]any{trial.Sampled, trial.FitBefore, trial.FitAfter}).To(HaveExactElements(int64(4), HaveValue(BeEquivalentTo(3)), int64(1)))
		Expect(trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: env.namespace, Pod: "a"}, v1alpha1.PodReference{Namespace: env.namespace, Pod: "b"}))
		Expect(trial.Time.IsZero()).To(BeFalse())
		Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).To(SatisfyAll(
			ContainSubstring("on 4 of its pods: 1 fit, 3 did before; lost: "), ContainSubstring("1 the label says refuses")))
		Eventually(objectEvents(ctx, p)).Should(ContainElement("Warning PodsLost Trial"))

		By("the spec is corrected")
		editProfile(ctx, p, resetPlugins)
		expectReady(ctx, p)
		Expect([]any{p.Status.Trial.FitBefore, p.Status.Trial.FitAfter, p.Status.Trial.Lost}).To(HaveExactElements(HaveValue(BeEquivalentTo(1)), int64(3), BeEmpty()))
	})

	for _, fault := range []struct{ does, message string }{
		{"panics", `plugin "Faulty" panicked in Filter: no entry for odd`},
		{"errs", "the inventory does not answer"},
		{"hangs", `plugin "Faulty" did not come back from Filter within 2s`},
	} {
		It("finds a plugin that "+fault.does+" at one pod only", minute, func(ctx SpecContext) {
			env, p := newTestEnv(ctx), createProfile(ctx)
			createNode(ctx, env.node("n"))
			expectReady(ctx, p)
			before := p.Status.Programmed.DeepCopy()
			odd := createPod(ctx, env.pod(p, "odd").Label("faulty", fault.does))
			expectBoundAndInformed(ctx, odd)

			editProfile(ctx, p, enableFaulty)
			Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
				"Programmed False TrialFailed", "Ready False TrialFailed", "Stalled True TrialFailed"))
			Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(SatisfyAll(
				HavePrefix("generation 1 keeps running since "), ContainSubstring("generation 2 failed: on trial"),
				ContainSubstring("pod "+env.namespace+"/odd: "), ContainSubstring(fault.message)))
			Expect(p.Status.Programmed).To(Equal(before))
			Expect(p.Status.Trial).NotTo(BeNil())
			Expect(p.Status.Trial.Hash).NotTo(Equal(before.Hash))
			Expect(boundRecord(ctx, createPod(ctx, env.pod(p, "next"))).Hash).To(Equal(before.Hash))
			Eventually(objectEvents(ctx, p)).Should(ContainElement("Warning TrialFailed Programmed"))
			Expect(kubectl(ctx, "get", "sprof", p.Name, "-o", "wide")).To(SatisfyAll(ContainSubstring("TrialFailed"), ContainSubstring("pod "+env.namespace+"/odd")))

			By("the pod is deleted")
			admin.Remove(ctx, odd)
			expectReady(ctx, p)
			Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
		})
	}

	It("finds a fault in a new profile at a pod that waits for it", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		createNode(ctx, env.node("n"))
		odd := createPod(ctx, env.pod(&v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}, "odd").Label("faulty", "panics"))
		expectInformed(ctx, odd)
		p := createProfileNamed(ctx, env.namespace, enableFaulty)
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Programmed False TrialFailed", "Ready False TrialFailed"))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(HavePrefix("nothing runs; generation 1 failed: on trial its plugins failed for 1 of 1 pod: "))
		Expect(p.Status.Trial.FitBefore).To(BeNil())
		Eventually(admin.PodScheduled(ctx, odd)).Should(Equal("False ProfileNotRunning: SchedulingProfile " + p.Name +
			" does not run: generation 1 failed its trial; the status of the profile says why"))

		By("a pod comes at which no plugin fails")
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "plain")))
		expectReady(ctx, p)
		Expect([]any{p.Status.Trial.Sampled, p.Status.Trial.FitBefore, p.Status.Trial.FitAfter}).To(HaveExactElements(int64(2), BeNil(), int64(1)))
		Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).To(ContainSubstring("on 2 of its pods: 1 fit; plugins failed for: " + env.namespace + "/odd ("))
		Eventually(admin.PodScheduled(ctx, odd)).Should(ContainSubstring("panicked in Filter"))
	})

	It("does not reject a change for a pod at which the running plugins fail as well", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, enableFaulty)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		odd := createPod(ctx, env.pod(p, "odd").Label("faulty", "errs"))
		Eventually(admin.PodScheduled(ctx, odd)).Should(ContainSubstring("SchedulerError"))
		editProfile(ctx, p, setTopScores(1))
		expectReady(ctx, p)
		Expect(p.Status.Trial.Sampled).To(BeEquivalentTo(1))
	})

	It("runs before the approval of a profile with activation Manual", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		createNode(ctx, env.node("n"))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Trial).To(HaveField("Sampled", BeZero()))
		approveProfile(ctx, p)
		expectReady(ctx, p)
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "a").Label("faulty", "refuses")))

		editProfile(ctx, p, enableFaulty)
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect([]any{p.Status.Trial.Sampled, p.Status.Trial.FitBefore, p.Status.Trial.FitAfter}).To(HaveExactElements(int64(1), HaveValue(BeEquivalentTo(1)), int64(0)))
		Expect(p.Status.Trial.Lost).To(ConsistOf(v1alpha1.PodReference{Namespace: env.namespace, Pod: "a"}))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(MatchRegexp(
			`generation 2 with hash %s was tried at \d\d:\d\d on 1 of its pods: 0 fit, 1 did before; lost: %s/a \(.*\); it waits for approval: kubectl `, p.Status.Trial.Hash, env.namespace))
		list, err := kubectl(ctx, "get", "controllerrevisions", "-n", namespace, "-o", "name")
		Expect(err).NotTo(HaveOccurred())
		Expect(list).NotTo(ContainSubstring(p.Name+"-"+p.Status.Trial.Hash), "a spec that never ran has no revision")
		approveProfile(ctx, p)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(p.Status.Trial.Hash))
	})

	It("prevents the approval of a spec that fails", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		expectBoundAndInformed(ctx, createPod(ctx, env.pod(p, "odd").Label("faulty", "panics")))
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual; enableFaulty(s) })
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False TrialFailed"))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, v1alpha1.AnnotationApprovedHash+"="+p.Status.Trial.Hash)).Error().NotTo(HaveOccurred())
		Consistently(currentConditions(ctx, p), "2s").Should(ContainElement("Programmed False TrialFailed"))
	})
})

// expectInformed waits until the manager's informer has these versions of the pods.
func expectInformed(ctx SpecContext, pods ...*v1.Pod) {
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

// expectBoundAndInformed waits until the pods are bound and the manager's informer has
// them.
func expectBoundAndInformed(ctx SpecContext, pods ...*v1.Pod) {
	GinkgoHelper()
	admin.ExpectBound(ctx, pods...)
	expectInformed(ctx, pods...)
}
