package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("A profile with an HTTP extender", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("puts pods where the extender says, of the nodes that fit and by its scores", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		a, b, c := aNode(ctx, y.node("a").Capacity("cpu", "1")), aNode(ctx, y.node("b").Capacity("cpu", "1")), aNode(ctx, y.node("c").Capacity("cpu", "1"))
		v.says(func(v *voice) { v.filter, v.prioritize = only(a, c), preferring(c, 0) })
		p := aProfile(ctx, neverFlushing, naming(3), extendedBy(v, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"}))
		expectReady(ctx, p)
		one := aPod(ctx, y.pod(p, "one").Requests("cpu", "1"))
		r := recordOf(ctx, one)
		Expect(r.Node).To(Equal(c.Name))
		Expect(r.Top[0].Plugins).To(HaveKeyWithValue("Extender/rack", int64(100)))
		two := aPod(ctx, y.pod(p, "two").Requests("cpu", "1"))
		admin.ExpectBound(ctx, two)
		Expect(two.Spec.NodeName).To(Equal(a.Name), "%s is full, and %s was not left", c.Name, b.Name)
	})

	It("says of whom a refusal is, and tries again when something changes", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		n := aNode(ctx, y.node("n").Capacity("cpu", "1"))
		v.says(func(v *voice) {
			v.filter = func(string) (bool, string, bool) { return false, "the rack is locked", false }
		})
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters))
		pod := aPod(ctx, y.pod(p, "p").Requests("cpu", "1"))
		expectHeld(ctx, v1.PodReasonUnschedulable, pod)
		Expect(apitest.Scheduled(pod)).To(ContainSubstring("the rack is locked"))
		v.says(func(v *voice) { v.filter = only(n) })
		apitest.Change(ctx, admin, n, func(n *v1.Node) { n.Labels["key"] = "turned" })
		admin.ExpectBound(ctx, pod)
	})

	It("that fails keeps its pods waiting, and one that may be ignored does not", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		aNode(ctx, y.node("n").Capacity("cpu", "2"))
		strict, lax := aProfile(ctx, neverFlushing, extendedBy(v, filters)), aProfile(ctx, neverFlushing, extendedBy(v, filters, mayIgnored))
		waits, goes := aPod(ctx, y.pod(strict, "waits").Requests("cpu", "1")), aPod(ctx, y.pod(lax, "goes").Requests("cpu", "1"))
		admin.ExpectBound(ctx, goes)
		expectHeld(ctx, v1.PodReasonSchedulerError, waits)
		Expect(apitest.Scheduled(waits)).To(ContainSubstring(`extender "rack": filter: status 500, want 200`))
		v.says(func(v *voice) { v.filter = func(string) (bool, string, bool) { return true, "", true } })
		admin.ExpectBound(ctx, waits)
	})

	It("is asked only about pods that ask for what it manages, which NodeResourcesFit may leave to it", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		v.says(func(v *voice) { v.filter = only(n) })
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters, func(e *v1alpha1.Extender) {
			e.ManagedResources = []v1alpha1.ExtenderManagedResource{{Name: "example.com/rack", IgnoredByScheduler: true}}
		}))
		plain := aPod(ctx, y.pod(p, "plain").Requests("cpu", "1"))
		racked := aPod(ctx, racking(y.pod(p, "racked")))
		admin.ExpectBound(ctx, plain, racked)
		Expect(v.pods()).To(HaveEach(racked.Name))
		other := aProfile(ctx, neverFlushing)
		expectHeld(ctx, v1.PodReasonUnschedulable, aPod(ctx, racking(y.pod(other, "other"))))
	})

	It("that binds is not believed: the pod is where the API server says", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		aNode(ctx, y.node("n").Capacity("cpu", "4"))
		bind := binder(ctx)
		v.says(func(v *voice) {
			v.bind = func(args extenderv1.ExtenderBindingArgs) string {
				switch args.PodName {
				case "liar":
					return "" // and does nothing
				case "timid":
					_ = bind(args)
					return "something went wrong"
				}
				return bind(args)
			}
		})
		p := aProfile(ctx, neverFlushing, extendedBy(v, binds))
		honest, timid, liar := aPod(ctx, y.pod(p, "honest").Requests("cpu", "1")), aPod(ctx, y.pod(p, "timid").Requests("cpu", "1")), aPod(ctx, y.pod(p, "liar").Requests("cpu", "1"))
		admin.ExpectBound(ctx, honest, timid)
		Expect(honest.Annotations).NotTo(HaveKey("berth.dev/decision"))
		expectHeld(ctx, v1.PodReasonSchedulerError, liar)
		Expect(apitest.Scheduled(liar)).To(ContainSubstring("Extender/rack reported that it bound the pod to its node, but the pod is not bound"))
		v.says(func(v *voice) { v.bind = bind })
		admin.ExpectBound(ctx, liar)
	})

	It("comes and goes under a stream of pods, and none is lost", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		v.says(func(v *voice) { v.filter = func(string) (bool, string, bool) { return true, "", true } })
		aNode(ctx, y.node("n").Capacity("cpu", "64"))
		p := aProfile(ctx, neverFlushing)
		seen := watching(ctx, y)
		var pods []*v1.Pod
		for wave := range 6 {
			extenders := extendedBy(v, filters)
			if wave%2 == 1 {
				extenders = func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil }
			}
			edit(ctx, p, extenders)
			for i := range 10 {
				pods = append(pods, aPod(ctx, y.pod(p, fmt.Sprintf("web-%d-%d", wave, i)).Requests("cpu", "100m")))
			}
			expectReady(ctx, p)
		}
		admin.ExpectBound(ctx, pods...)
		for _, pod := range pods {
			Expect(len(seen.nodes(pod))).To(BeNumerically("<=", 1), "%s has never been elsewhere", pod.Name)
		}
		Expect(v.pods()).NotTo(BeEmpty())
	})
})
