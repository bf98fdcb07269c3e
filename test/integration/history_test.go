package integration

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("The history of a profile", func() {
	It("lets a user roll back with kubectl alone", minute, func(ctx SpecContext) {
		config := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := createProfile(ctx, referFitConfig(config.Name))
		expectReady(ctx, p)
		first := *p.Status.Programmed
		Expect(first.Revision).To(Equal(p.Name + "-" + first.Hash))

		By("an edit that removes, adds and changes fields, and one that is rejected")
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig, s.PercentageOfNodesToScore = nil, 50
			allowTeam("shop")(s)
			s.Plugins = &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "NodePorts"}}}}
		})
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
		editProfile(ctx, p, enableScore("NoSuch"))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))

		applyRevision(ctx, first.Revision)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
		Expect(p.Status.Programmed.Revision).To(Equal(first.Revision))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(HaveField("Args", "Inline")), "it needs no PluginConfig")
	})

	It("restores a deleted profile", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		p := createProfileNamed(ctx, env.namespace, referFitConfig(createPluginConfig(ctx, scoringStrategy("MostAllocated")).Name))
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		first := *p.Status.Programmed
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeFalse())
		pod := createPod(ctx, env.pod(p, "between"))

		applyRevision(ctx, first.Revision)
		admin.ExpectBound(ctx, pod)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
	})

	It("has a killed process go back to the revision that is proved, not to one that ran for seconds", minutes, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		served := *p.Status.Programmed
		Eventually(func(g Gomega) map[string]string { return getRevision(ctx, g, served.Revision).Annotations }).
			ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
		first := startManagerProcess(ctx)
		// No other profile of the suite has this spec: a revision that one profile proved
		// counts for all.
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 43 })
		expectReady(ctx, p)
		editProfile(ctx, p, enableScore("NoSuch"))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))

		first.Kill()
		next := startManagerProcess(ctx)
		record := boundRecord(ctx, createPod(ctx, env.pod(p, "web")))
		Expect(record.Generation).To(Equal(served.Generation))
		Expect(record.Hash).To(Equal(served.Hash))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))
		stopManagerProcess(ctx, next)
	})

	It("blames a spec that crashes the process, which runs again when the user asks for it", minutes, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		expectReady(ctx, p)
		good := *p.Status.Programmed
		Eventually(func(g Gomega) map[string]string { return getRevision(ctx, g, good.Revision).Annotations }).
			ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })

		// Two processes that crash in the build are evidence, and so are three that crash
		// later: the plugin is out-of-tree.
		survivor := startManagerProcess(ctx)
		editProfile(ctx, p, enablePostBind(crasher))
		Eventually(survivor.Ended()).Should(BeClosed())
		for range 2 {
			survivor = startManagerProcess(ctx)
			Eventually(func(g Gomega) {
				select {
				case <-survivor.Ended():
				default:
					currentConditions(ctx, p)(g)
					g.Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).To(ContainSubstring("is blamed for crashes"))
				}
			}).Should(Succeed())
		}
		select {
		case <-survivor.Ended():
			survivor = startManagerProcess(ctx)
		default:
		}
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False CrashedOnProbation", "Ready False CrashedOnProbation", "Stalled True CrashedOnProbation"))
		Expect(p.Status.Programmed.Hash).To(Equal(good.Hash))
		Expect(boundRecord(ctx, createPod(ctx, env.pod(p, "web"))).Hash).To(Equal(good.Hash))
		Expect(survivor.Ended()).NotTo(BeClosed())

		By("the user retries it, as the message says")
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(HaveSuffix("try it again with: kubectl berth retry " + p.Name))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, "--overwrite", v1alpha1.AnnotationRetry+"=now")).Error().NotTo(HaveOccurred())
		Eventually(survivor.Ended()).Should(BeClosed())

		By("the user corrects the spec")
		editProfile(ctx, p, resetPlugins)
		fourth := startManagerProcess(ctx)
		expectReady(ctx, p)
		stopManagerProcess(ctx, fourth)
	})
})

var _ = Describe("A profile with activation Manual", func() {
	It("runs a change after the command in its message", minute, func(ctx SpecContext) {
		p := createProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False AwaitingApproval", "Ready False AwaitingApproval", "Stalled True AwaitingApproval"))
		approveProfile(ctx, p)
		expectReady(ctx, p)
		first := *p.Status.Programmed

		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
		approveProfile(ctx, p)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
	})
})

// approveProfile runs the command in the profile's message.
func approveProfile(ctx SpecContext, p *v1alpha1.SchedulingProfile) {
	GinkgoHelper()
	_, command, found := strings.Cut(conditionMessage(p, v1alpha1.ConditionProgrammed), "waits for approval: kubectl ")
	Expect(found).To(BeTrue(), conditionMessage(p, v1alpha1.ConditionProgrammed))
	Expect(kubectl(ctx, strings.Fields(command)...)).Error().NotTo(HaveOccurred())
}

// minutes is the timeout of a spec in which Leases expire, or many processes start.
const minutes = SpecTimeout(4 * time.Minute)

// applyRevision runs the command of the documentation.
func applyRevision(ctx SpecContext, name string) {
	GinkgoHelper()
	data, err := kubectl(ctx, "get", "controllerrevision", "-n", namespace, name, "-o", "jsonpath={.data}")
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Kubectl(ctx, strings.NewReader(data), "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

func getRevision(ctx SpecContext, g Gomega, name string) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{}
	g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)).To(Succeed())
	return r
}
