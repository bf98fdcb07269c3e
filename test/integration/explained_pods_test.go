package integration

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

var _ = Describe("A pod that waits for a profile", func() {
	It("is explained to whoever reads its namespace, and not by the names of nodes", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("small").Capacity("cpu", "3500m"))
		aNode(ctx, y.node("tainted").Capacity("cpu", "8").Taint("team", "red", v1.TaintEffectNoSchedule))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "4"))
		d := expectDecision(ctx, pod)
		Expect(d.Status.Profile.Name).To(Equal(p.Name))
		Expect(d.Status.ClosestNodes).To(ContainElement(v1alpha1.ClosestNode{Missing: []v1alpha1.Missing{{Resource: "cpu", Requested: "4", Free: "3500m"}}}))
		Expect(kubectl(ctx, "get", "why", "--namespace", pod.Namespace, pod.Name, "--output=wide")).To(SatisfyAll(
			MatchRegexp(`%s +Unschedulable +0/2 +NodeResourcesFit 1, TaintToleration 1`, p.Name),
			ContainSubstring("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."),
			Not(ContainSubstring(y.name+"-"))))

		aNode(ctx, y.node("large").Capacity("cpu", "4"))
		admin.ExpectBound(ctx, pod)
		expectNoDecision(ctx, pod)
	})
})

var _ = Describe("A profile that explains otherwise than before", func() {
	It("has who waits told so: what was said goes, and comes back, although nobody is tried for another reason", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		waits := map[v1alpha1.DecisionResult]*v1.Pod{
			v1alpha1.ResultUnschedulable: aPod(ctx, y.pod(p, "refused").Requests("cpu", "2")),
			v1alpha1.ResultGated:         aPod(ctx, y.pod(p, "gated").SchedulingGate("example.com/quota")),
		}
		for result, pod := range waits {
			Eventually(decisionOf(ctx, pod)).Should(HaveField("Status.Result", result))
		}
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Explain = v1alpha1.ExplainNone })
		for _, pod := range waits {
			expectNoDecision(ctx, pod)
		}
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Decisions.Explain = v1alpha1.ExplainRefusals })
		for result, pod := range waits {
			Eventually(decisionOf(ctx, pod)).Should(HaveField("Status.Result", result))
		}
	})
})
