package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("A profile with several HTTP extenders", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("asks one after the other, adds up what they say, and has the pod bound by the one that binds", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		n := map[string]*v1.Node{}
		for _, name := range []string{"1", "2", "3", "4", "5"} {
			n[name] = aNode(ctx, y.node(name).Capacity("cpu", "1"))
		}
		says := func(favourite *v1.Node, fit ...*v1.Node) *voice {
			v := aVoice()
			v.says(func(v *voice) { v.filter, v.prioritize = only(fit...), preferring(favourite, 1) })
			return v
		}
		first := says(n["2"], n["1"], n["2"], n["3"])
		second := says(n["3"], n["2"], n["3"], n["5"])
		third := says(n["2"], n["1"], n["2"], n["3"])
		second.says(func(v *voice) { v.bind = binder(ctx) })
		both := v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"}
		p := aProfile(ctx, neverFlushing, func(s *v1alpha1.SchedulingProfileSpec) {
			s.Extenders = []v1alpha1.Extender{
				asExtender(first, both, weighing("first", 3, false)),
				asExtender(second, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize", Bind: "bind"}, weighing("second", 4, false), func(e *v1alpha1.Extender) {
					e.ManagedResources = []v1alpha1.ExtenderManagedResource{{Name: "example.com/rack", IgnoredByScheduler: true}}
				}),
				asExtender(third, both, weighing("third", 10, true)),
			}
		})
		pod := aPod(ctx, racking(y.pod(p, "p")))
		admin.ExpectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal(n["2"].Name), "134 to 53, which is the only other node that is left")
		Expect(pod.Annotations).NotTo(HaveKey("berth.dev/decision"), "the second has bound it")
		Expect(first.asked()).To(ConsistOf(n["1"].Name, n["2"].Name, n["3"].Name, n["4"].Name, n["5"].Name))
		Expect(second.asked()).To(ConsistOf(n["1"].Name, n["2"].Name, n["3"].Name))
		Expect(third.asked()).To(ConsistOf(n["2"].Name, n["3"].Name))
	})
})

// weighing names an extender, and says what its scores count for and whether it
// is asked by the nodes' names.
func weighing(name string, weight int32, byName bool) func(*v1alpha1.Extender) {
	return func(e *v1alpha1.Extender) { e.Name, e.Weight, e.NodeCacheCapable = name, &weight, byName }
}
