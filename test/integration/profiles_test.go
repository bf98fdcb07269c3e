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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A SchedulingProfile", func() {
	It("with an empty spec becomes ready and says what runs", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		Expect(p.Status.ObservedGeneration).To(Equal(p.Generation))
		Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
		Expect(p.Status.Programmed.Hash).To(MatchRegexp("^[0-9a-f]{10}$"))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(v1alpha1.ProgrammedPlugin{
			Name: "NodeResourcesFit", Points: []v1alpha1.ExtensionPoint{"PreFilter", "Filter", "PreScore", "Score"}, Weight: 1, Args: "Default",
		}))
		Expect(message(p, v1alpha1.ConditionReady)).To(MatchRegexp(`^generation 1 runs since \d\d:\d\d$`))
	})

	It("keeps running through a bad edit, and names the field and the nearest plugin", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		edit(ctx, p, scoring("NodeResourceFit"))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs",
			"Programmed False PreviousRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(message(p, v1alpha1.ConditionReady)).To(SatisfyAll(
			MatchRegexp(`^generation 1 keeps running since \d\d:\d\d; generation 2 refused: `),
			ContainSubstring("spec.plugins.score.enabled[0].name"),
			ContainSubstring(`"NodeResourcesFit"`)))

		edit(ctx, p, noPlugins)
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Hash).To(Equal(before.Hash), "the remedy resolves to what ran all the time")
		Expect(p.Status.Programmed.Generation).To(Equal(p.Generation))
	})

	It("that never ran says that nothing runs", minute, func(ctx SpecContext) {
		p := aProfile(ctx, scoring("NoSuch"))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted False UnknownPlugin", "ResolvedRefs True ResolvedRefs",
			"Programmed False NothingRuns", "Ready False UnknownPlugin", "Stalled True UnknownPlugin"))
		Expect(p.Status.Programmed).To(BeNil())
		Expect(message(p, v1alpha1.ConditionReady)).To(HavePrefix("nothing runs; generation 1 refused: "))
	})

	It("whose plugin cannot be built keeps what ran", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		edit(ctx, p, afterBind(brittle))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed False BuildFailed", "Ready False BuildFailed", "Stalled True BuildFailed"))
		Expect(message(p, v1alpha1.ConditionProgrammed)).To(SatisfyAll(
			HavePrefix("generation 1 keeps running since "), ContainSubstring("Brittle"), ContainSubstring("the licence has run out")))
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(1))
	})

	It("that is paused is programmed and not ready, and does not stall", minute, func(ctx SpecContext) {
		p := aProfile(ctx, inState(v1alpha1.StatePaused))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs True ResolvedRefs",
			"Programmed True Programmed", "Ready False Paused"))
		edit(ctx, p, inState(v1alpha1.StateActive))
		expectReady(ctx, p)
	})

	It("waits for a PluginConfig by name, and heals when it arrives", minute, func(ctx SpecContext) {
		name := fmt.Sprintf("late-%d", GinkgoRandomSeed())
		p := aProfile(ctx, fitFrom(name))
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted True Accepted", "ResolvedRefs False PluginConfigNotFound",
			"Programmed False NothingRuns", "Ready False PluginConfigNotFound", "Stalled True PluginConfigNotFound"))
		Expect(message(p, v1alpha1.ConditionResolvedRefs)).To(SatisfyAll(
			ContainSubstring("spec.pluginConfig[0].configRef"), ContainSubstring(name)))

		apitest.Created(ctx, admin, fit(metav1.ObjectMeta{Name: name}, strategy("MostAllocated")))
		expectReady(ctx, p)
		Expect(p.Status.Resolved).To(Equal([]v1alpha1.ObjectGeneration{{Name: name, Generation: 1}}))
		Expect(p.Status.Programmed.Configs).To(Equal(p.Status.Resolved))
		Expect(p.Status.Programmed.Plugins).To(ContainElement(HaveField("Args", "PluginConfig/"+name)))
	})

	It("swaps when a PluginConfig that it names is edited", minute, func(ctx SpecContext) {
		config := aPluginConfig(ctx, strategy("MostAllocated"))
		p := aProfile(ctx, fitFrom(config.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		editConfig(ctx, config, strategy("LeastAllocated"))
		Eventually(func(g Gomega) {
			g.Expect(now(ctx, p)(g)).To(ConsistOf(all))
			g.Expect(p.Status.Programmed.Configs).To(Equal([]v1alpha1.ObjectGeneration{{Name: config.Name, Generation: 2}}))
		}).Should(Succeed())
		Expect(p.Generation).To(BeEquivalentTo(1))
		Expect(p.Status.Programmed.Hash).NotTo(Equal(before.Hash))
	})

	It("runs on when a PluginConfig that it names is deleted", minute, func(ctx SpecContext) {
		config := aPluginConfig(ctx, strategy("MostAllocated"))
		p := aProfile(ctx, fitFrom(config.Name))
		expectReady(ctx, p)
		before := p.Status.Programmed.DeepCopy()

		Expect(admin.Delete(ctx, config)).To(Succeed())
		Eventually(now(ctx, p)).Should(ContainElements("ResolvedRefs False PluginConfigNotFound", "Programmed False PreviousRuns"))
		Expect(p.Status.Programmed).To(Equal(before))
		Expect(p.Status.Resolved).To(BeEmpty())
	})

	It("reports transitions as Events, and each error as one, which is about its field", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		expectReady(ctx, p)
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.PluginConfig = []v1alpha1.PluginArguments{{Name: "NodeResourcesFit", Args: new(raw(map[string]any{"x": 1, "y": 2}))}}
		})
		const field = "spec.pluginConfig[0].args."
		wrong := func(name string) any {
			return MatchRegexp(`^Warning InvalidArguments Accepted ` + regexp.QuoteMeta(field+name) + `: generation 1 keeps running since \S+; generation 2 refused: ` +
				regexp.QuoteMeta(field+name+": unknown field: the plugin has no such argument") + `$`)
		}
		Eventually(warningsAbout(ctx, p)).Should(ContainElements(wrong("x"), wrong("y")))
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PluginConfig = nil })
		Eventually(eventsOf(ctx, p)).Should(ContainElements("Normal Accepted Accepted", "Normal Programmed Programmed", "Normal Ready Ready"))
		Eventually(warningsAbout(ctx, p)).Should(ConsistOf(wrong("x"), wrong("y")), "Programmed, Ready and Stalled only repeated it")
	})
})

// warningsAbout are "type reason action field: note" of the warnings about an object.
func warningsAbout(ctx SpecContext, object client.Object) func(g Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == object.GetUID() && e.Type == v1.EventTypeWarning {
				out = append(out, strings.Join([]string{e.Type, e.Reason, e.Action, e.Regarding.FieldPath}, " ")+": "+e.Note)
			}
		}
		slices.Sort(out)
		return out
	}
}

// eventsOf are "type reason action" of the Events about an object.
func eventsOf(ctx SpecContext, object client.Object) func(g Gomega) []string {
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
