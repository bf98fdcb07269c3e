package integration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/badinput"
)

var _ = Describe("A SchedulingProfile", func() {
	It("with an empty spec becomes ready, and its status has what runs", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
		Expect(p.Status.Programmed.Hash).To(MatchRegexp("^[0-9a-f]{10}$"))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(v1alpha1.ProgrammedPlugin{
			Name: "NodeResourcesFit", Points: []v1alpha1.ExtensionPoint{"PreFilter", "Filter", "PreScore", "Score"}, Weight: 1, Args: "Default",
		}))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(MatchRegexp(`^generation 1 runs since \d\d:\d\d$`))
	})

	It("keeps running after a bad edit, and names the field and the nearest plugin", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		editProfile(ctx, p, enableScore("NodeResourceFit"))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs",
			"Programmed False PreviousRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(SatisfyAll(
			MatchRegexp(`^generation 1 keeps running since \d\d:\d\d; generation 2 refused: `),
			ContainSubstring("spec.plugins.score.enabled[0].name"),
			ContainSubstring(`"NodeResourcesFit"`)))

		editProfile(ctx, p, resetPlugins)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(before.Hash), "the corrected spec is what ran all the time")
		Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
	})

	It("that never ran says that nothing runs", minute, func(ctx SpecContext) {
		p := createProfile(ctx, enableScore("NoSuch"))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs",
			"Programmed False NothingRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"))
		Expect(p.Status.Programmed).To(BeNil())
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(HavePrefix("nothing runs; generation 1 refused: "))
	})

	It("whose plugin cannot be built keeps running what ran before", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		editProfile(ctx, p, enablePostBind(unbuildable))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False BuildFailed", "Ready False BuildFailed", "Stalled True BuildFailed"))
		Expect(conditionMessage(p, v1alpha1.ConditionProgrammed)).To(SatisfyAll(
			HavePrefix("generation 1 keeps running since "), ContainSubstring("Unbuildable"), ContainSubstring("the licence has run out")))
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(1))
	})

	It("that is paused is programmed and not ready, and not stalled", minute, func(ctx SpecContext) {
		p := createProfile(ctx, setState(v1alpha1.StatePaused))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed True Programmed", "Ready False Paused"))
		editProfile(ctx, p, setState(v1alpha1.StateActive))
		expectReady(ctx, p)
	})

	It("waits for a missing PluginConfig, and becomes ready when it is created", minute, func(ctx SpecContext) {
		name := fmt.Sprintf("late-%d", GinkgoRandomSeed())
		p := createProfile(ctx, referFitConfig(name))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs False PluginConfigNotFound",
			"Programmed False NothingRuns", "Ready False PluginConfigNotFound", "Stalled True PluginConfigNotFound"))
		Expect(conditionMessage(p, v1alpha1.ConditionResolvedRefs)).To(SatisfyAll(
			ContainSubstring("spec.pluginConfig[0].configRef"), ContainSubstring(name)))

		config := apitest.Created(ctx, admin, fitConfig(metav1.ObjectMeta{Name: name}, scoringStrategy("MostAllocated")))
		expectReady(ctx, p)
		Expect(p.Status.Resolved).To(Equal([]v1alpha1.ObjectGeneration{{Name: name, Generation: 1, UID: config.UID}}))
		Expect(p.Status.Programmed.Configs).To(Equal(p.Status.Resolved))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(HaveField("Args", "PluginConfig/"+name)))
	})

	It("swaps when its PluginConfig is edited", minute, func(ctx SpecContext) {
		config := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := createProfile(ctx, referFitConfig(config.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		editPluginConfig(ctx, config, scoringStrategy("LeastAllocated"))
		Eventually(func(g Gomega) {
			g.Expect(currentConditions(ctx, p)(g)).To(ConsistOf(readyConditions))
			g.Expect(p.Status.Programmed.Configs).To(Equal([]v1alpha1.ObjectGeneration{{Name: config.Name, Generation: 2, UID: config.UID}}))
		}).Should(Succeed())
		Expect(p.Generation).To(BeEquivalentTo(1))
		Expect(p.Status.Programmed.Hash).NotTo(Equal(before.Hash))
	})

	It("keeps running when its PluginConfig is deleted", minute, func(ctx SpecContext) {
		config := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := createProfile(ctx, referFitConfig(config.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		Expect(admin.Delete(ctx, config)).To(Succeed())
		Eventually(currentConditions(ctx, p)).Should(ContainElements("ResolvedRefs False PluginConfigNotFound", "Programmed False PreviousRuns"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(p.Status.Resolved).To(BeEmpty())
	})

	It("reports transitions as Events, and each error in an Event about its field", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", Args: new(rawJSON(map[string]any{"x": 1, "y": 2}))}}
		})
		const field = "spec.pluginConfig[0].args."
		wrong := func(name string) any {
			return MatchRegexp(`^Warning InvalidArguments Accepted ` + regexp.QuoteMeta(field+name) + `: generation 1 keeps running since \S+; generation 2 refused: ` +
				regexp.QuoteMeta(field+name+": unknown field: the plugin has no such argument") + `$`)
		}
		Eventually(objectNotes(ctx, p, v1.EventTypeWarning)).Should(ContainElements(wrong("x"), wrong("y")))
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		Eventually(objectEvents(ctx, p)).Should(ContainElements("Normal Accepted Accepted", "Normal Programmed Programmed", "Normal Ready Ready"))
		Eventually(objectNotes(ctx, p, v1.EventTypeNormal)).Should(ContainElement(And(HavePrefix("Normal Ready Ready "), ContainSubstring("generation 3"))))
		Expect(objectNotes(ctx, p, v1.EventTypeWarning)(Default)).To(ConsistOf(wrong("x"), wrong("y")), "Programmed, Ready and Stalled repeat it")
	})
})

// objectNotes returns the Events of a type about an object as "type reason action field: note".
func objectNotes(ctx SpecContext, object client.Object, eventType string) func(g Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == object.GetUID() && e.Type == eventType {
				out = append(out, strings.Join([]string{e.Type, e.Reason, e.Action, e.Regarding.FieldPath}, " ")+": "+e.Note)
			}
		}
		slices.Sort(out)
		return out
	}
}

// objectEvents returns the Events about an object as "type reason action".
func objectEvents(ctx SpecContext, object client.Object) func(g Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == object.GetUID() {
				out = append(out, strings.Join([]string{e.Type, e.Reason, e.Action}, " "))
			}
		}
		slices.Sort(out)
		return out
	}
}

var _ = Describe("A PluginConfig", func() {
	It("without profiles has conditions", minute, func(ctx SpecContext) {
		c := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		Eventually(currentConditions(ctx, c)).Should(ConsistOf("Accepted True Accepted", "Programmed True Programmed"))
		Expect(c.Status.Hash).To(MatchRegexp("^[0-9a-f]{10}$"))
		Expect(c.Status.ReferenceCount).To(BeZero())
		Expect(conditionMessage(c, v1alpha1.ConditionProgrammed)).To(Equal("no profile names it"))
	})

	It("that is invalid names the path of the error, and so do its profiles", minute, func(ctx SpecContext) {
		c := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := createProfile(ctx, referFitConfig(c.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		editPluginConfig(ctx, c, scoringStrategy("Most"))
		Eventually(currentConditions(ctx, c)).Should(ConsistOf("Accepted False InvalidArguments", "Programmed False PreviousRuns"))
		Expect(conditionMessage(c, v1alpha1.ConditionAccepted)).To(SatisfyAll(
			HavePrefix("generation 1 keeps running in "+p.Name+"; generation 2 refused: spec.args.scoringStrategy.type"),
			ContainSubstring("MostAllocated")))
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs False PluginConfigRefused",
			"Programmed False PreviousRuns", "Ready False PluginConfigRefused", "Stalled True PluginConfigRefused"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(HavePrefix(
			"generation 1 with PluginConfig " + c.Name + " at generation 1 keeps running since "))

		editPluginConfig(ctx, c, scoringStrategy("LeastAllocated"))
		expectReady(ctx, p)
		Eventually(currentConditions(ctx, c)).Should(ConsistOf("Accepted True Accepted", "Programmed True Programmed"))
	})

	It("lists its profiles with their generations", minute, func(ctx SpecContext) {
		c := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		p := createProfile(ctx, referFitConfig(c.Name))
		users := func(g Gomega) []v1alpha1.ObjectGeneration {
			currentConditions(ctx, c)(g)
			g.Expect(c.Status.ReferenceCount).To(BeEquivalentTo(len(c.Status.ReferencedBy)))
			return c.Status.ReferencedBy
		}
		Eventually(users).Should(ConsistOf(v1alpha1.ObjectGeneration{Name: p.Name, Generation: 1, UID: p.UID}))
		editProfile(ctx, p, publishEvery(7))
		Eventually(users).Should(ConsistOf(v1alpha1.ObjectGeneration{Name: p.Name, Generation: 2, UID: p.UID}))
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		Eventually(users).Should(BeEmpty())
	})

	It("is programmed when its last profile has swapped", minute, func(ctx SpecContext) {
		const programmed = "--for=condition=Programmed"
		c := createPluginConfig(ctx, scoringStrategy("MostAllocated"))
		quick := createProfile(ctx, referFitConfig(c.Name))
		late := createProfile(ctx, referFitConfig(c.Name), enablePostBind(slowBuild))
		expectReady(ctx, quick)
		expectReady(ctx, late)
		Expect(kubectl(ctx, "wait", programmed, "--timeout=30s", "plugcfg/"+c.Name)).Error().NotTo(HaveOccurred())

		open := slowBuildGate.shutGate()
		defer open()
		editPluginConfig(ctx, c, scoringStrategy("LeastAllocated"))
		Eventually(func(g Gomega) {
			g.Expect(currentConditions(ctx, c)(g)).To(ConsistOf("Accepted True Accepted", "Programmed False PreviousRuns"))
			g.Expect(conditionMessage(c, v1alpha1.ConditionProgrammed)).To(Equal("generation 2 runs in " + quick.Name +
				", generation 1 keeps running in " + late.Name + "; generation 2 does not run in " + late.Name))
		}).Should(Succeed())
		Expect(kubectl(ctx, "wait", programmed, "--timeout=0", "plugcfg/"+c.Name)).Error().To(HaveOccurred())

		open()
		Expect(kubectl(ctx, "wait", programmed, "--timeout=30s", "plugcfg/"+c.Name)).Error().NotTo(HaveOccurred())
		expectReady(ctx, late)
	})

	It("that is invalid from the beginning has no hash", minute, func(ctx SpecContext) {
		c := createPluginConfig(ctx, scoringStrategy("Most"))
		Eventually(currentConditions(ctx, c)).Should(ConsistOf("Accepted False InvalidArguments", "Programmed False NothingRuns"))
		Expect(c.Status.Hash).To(BeEmpty())
	})
})

var _ = Describe("Bad input", func() {
	cases, err := badinput.Cases()
	if err != nil {
		panic(err) // Ginkgo cannot fail while it builds its tree
	}
	for _, c := range cases {
		It(c.Description, minute, func(ctx SpecContext) {
			for _, object := range c.Objects[:len(c.Objects)-1] {
				Expect(applyObject(ctx, object)).To(Succeed())
			}
			err := applyObject(ctx, c.Bad())
			if c.Refused {
				Expect(err).To(MatchError(ContainSubstring(c.Message)))
				return
			}
			Expect(err).NotTo(HaveOccurred())
			Eventually(caseCondition(ctx, c)).Should(SatisfyAll(
				HaveField("Reason", c.Reason), HaveField("Status", BeEquivalentTo("False")), HaveField("Message", ContainSubstring(c.Message))))
		})
	}
})

// applyObject creates or changes an object as `kubectl apply --server-side` does.
func applyObject(ctx SpecContext, object *unstructured.Unstructured) error {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, object.DeepCopy()))).To(Succeed())
	})
	return admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("integration"))
}

// caseCondition reads the condition that a case expects.
func caseCondition(ctx SpecContext, c badinput.Case) func(g Gomega) any {
	return func(g Gomega) any {
		var object client.Object = &v1alpha1.SchedulingProfile{}
		if strings.EqualFold(c.Bad().GetKind(), "PluginConfig") {
			object = &v1alpha1.PluginConfig{}
		}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(c.Bad()), object)).To(Succeed())
		return meta.FindStatusCondition(conditions(object), c.Condition)
	}
}
