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

var _ = Describe("A profile's history", func() {
	It("is rolled back with kubectl alone, whoever made the edit", minute, func(ctx SpecContext) {
		config := aPluginConfig(ctx, strategy("MostAllocated"))
		p := aProfile(ctx, fitFrom(config.Name))
		expectReady(ctx, p)
		first := *p.Status.Programmed
		Expect(first.Revision).To(Equal(p.Name + "-" + first.Hash))

		By("an edit that removes, adds and changes, and one that is refused")
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig, s.PercentageOfNodesToScore = nil, 50
			forTeam("shop")(s)
			s.Plugins = &v1alpha1.Plugins{Filter: v1alpha1.PluginSet{Disabled: []v1alpha1.DisabledPlugin{{Name: "NodePorts"}}}}
		})
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
		edit(ctx, p, scoring("NoSuch"))
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))

		rollBack(ctx, first.Revision)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
		Expect(p.Status.Programmed.Revision).To(Equal(first.Revision))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(HaveField("Args", "Inline")), "it needs no PluginConfig")
	})

	It("undoes a deletion by accident", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		p := aProfileNamed(ctx, y.name, fitFrom(aPluginConfig(ctx, strategy("MostAllocated")).Name))
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		first := *p.Status.Programmed
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeFalse())
		pod := aPod(ctx, y.pod(p, "between"))

		rollBack(ctx, first.Revision)
		admin.ExpectBound(ctx, pod)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
	})

	It("goes back to what served, not to what ran for seconds, after a kill on a spec that is refused", twoMinutes, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		served := *p.Status.Programmed
		Eventually(func(g Gomega) map[string]string { return revision(ctx, g, served.Revision).Annotations }).
			ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
		first := startChild(ctx)
		// A spec that no other profile of the suite has: what one proved is trusted in all.
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 43 })
		expectReady(ctx, p)
		edit(ctx, p, scoring("NoSuch"))
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))

		first.Kill()
		next := startChild(ctx)
		record := recordOf(ctx, aPod(ctx, y.pod(p, "web")))
		Expect(record.Generation).To(Equal(served.Generation))
		Expect(record.Hash).To(Equal(served.Hash))
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False PreviousRuns"))
		end(ctx, next)
	})

	It("sets a spec aside that takes the process down, and takes it up when the user says so", twoMinutes, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("n"))
		expectReady(ctx, p)
		good := *p.Status.Programmed
		Eventually(func(g Gomega) map[string]string { return revision(ctx, g, good.Revision).Annotations }).
			ShouldNot(HaveKey(v1alpha1.AnnotationProbation))
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })

		// Two processes that die in the build are evidence, and so are three that die
		// later: the plugin is not built in.
		survivor := startChild(ctx)
		edit(ctx, p, afterBind(bomb))
		Eventually(survivor.Ended()).Should(BeClosed())
		for range 2 {
			survivor = startChild(ctx)
			Eventually(func(g Gomega) {
				select {
				case <-survivor.Ended():
				default:
					now(ctx, p)(g)
					g.Expect(message(p, v1alpha1.ConditionProgrammed)).To(ContainSubstring("is blamed for crashes"))
				}
			}).Should(Succeed())
		}
		select {
		case <-survivor.Ended():
			survivor = startChild(ctx)
		default:
		}
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False CrashedOnProbation", "Ready False CrashedOnProbation", "Stalled True CrashedOnProbation"))
		Expect(p.Status.Programmed.Hash).To(Equal(good.Hash))
		Expect(recordOf(ctx, aPod(ctx, y.pod(p, "web"))).Hash).To(Equal(good.Hash))
		Expect(survivor.Ended()).NotTo(BeClosed())

		By("trying it again, as the message says")
		Expect(message(p, v1alpha1.ConditionReady)).To(HaveSuffix("try it again with: kubectl berth retry " + p.Name))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, "--overwrite", v1alpha1.AnnotationRetry+"=now")).Error().NotTo(HaveOccurred())
		Eventually(survivor.Ended()).Should(BeClosed())

		By("mending the spec")
		edit(ctx, p, noPlugins)
		fourth := startChild(ctx)
		expectReady(ctx, p)
		end(ctx, fourth)
	})
})

var _ = Describe("A profile whose activation is Manual", func() {
	It("runs a change when the command of its message was run", minute, func(ctx SpecContext) {
		p := aProfile(ctx, func(s *v1alpha1.SchedulingProfileSpec) { s.Activation = v1alpha1.ActivationManual })
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False AwaitingApproval", "Ready False AwaitingApproval", "Stalled True AwaitingApproval"))
		approve(ctx, p)
		expectReady(ctx, p)
		first := *p.Status.Programmed

		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Programmed.Hash).To(Equal(first.Hash))
		approve(ctx, p)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).NotTo(Equal(first.Hash))
	})
})

// approve runs the command that a profile's message gives.
func approve(ctx SpecContext, p *v1alpha1.SchedulingProfile) {
	GinkgoHelper()
	_, command, found := strings.Cut(message(p, v1alpha1.ConditionProgrammed), "waits for approval: kubectl ")
	Expect(found).To(BeTrue(), message(p, v1alpha1.ConditionProgrammed))
	Expect(kubectl(ctx, strings.Fields(command)...)).Error().NotTo(HaveOccurred())
}

// twoMinutes bounds a spec in which leases run out.
const twoMinutes = SpecTimeout(2 * time.Minute)

// rollBack runs the line that the documentation gives.
func rollBack(ctx SpecContext, name string) {
	GinkgoHelper()
	data, err := kubectl(ctx, "get", "controllerrevision", "-n", namespace, name, "-o", "jsonpath={.data}")
	Expect(err).NotTo(HaveOccurred())
	_, err = cp.Kubectl(ctx, strings.NewReader(data), "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred())
}

func revision(ctx SpecContext, g Gomega, name string) *appsv1.ControllerRevision {
	r := &appsv1.ControllerRevision{}
	g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, r)).To(Succeed())
	return r
}
