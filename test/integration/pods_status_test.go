package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

var _ = Describe("A profile's status", func() {
	It("agrees with what happened to its pods", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, publishingEvery(1), keeping(4), neverFlushing)
		aNode(ctx, y.node("n").Capacity("cpu", "5"))
		expectReady(ctx, p)
		var last record
		for i := range 5 {
			last = recordOf(ctx, aPod(ctx, y.pod(p, fmt.Sprint("web-", i)).Requests("cpu", "1")))
		}
		unfit := aPod(ctx, y.pod(p, "unfit").Requests("cpu", "1"))
		expectHeld(ctx, v1.PodReasonUnschedulable, unfit)
		aPod(ctx, y.pod(p, "gated").SchedulingGate("example.com/quota"))
		aPod(ctx, unhonoured(y.pod(p, "unsupported")))

		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{
			Pending: 3, Unschedulable: 1, Gated: 1, Held: 1,
		})))
		Eventually(published(ctx, p)).Should(SatisfyAll(
			HaveField("Bound", BeEquivalentTo(5)), HaveField("Refusals", BeEquivalentTo(1)),
			HaveField("Errors", BeZero()), HaveField("Victims", BeZero()), HaveField("DecisionsDropped", BeZero())))
		Expect(p.Status.Totals.Since.Time).To(BeTemporally("<=", p.Status.LastDecisionTime.Time))
		var bound []any
		for i := range 3 {
			bound = append(bound, SatisfyAll(ofPod(y, fmt.Sprint("web-", 4-i), v1alpha1.ResultBound),
				HaveField("Node", last.Node), HaveField("Hash", last.Hash), HaveField("Generation", last.Generation)))
		}
		Expect(p.Status.RecentDecisions).To(HaveExactElements(append([]any{
			SatisfyAll(ofPod(y, "unfit", v1alpha1.ResultUnschedulable),
				HaveField("Message", HavePrefix("0/1 nodes are available: 1 Insufficient cpu.")), HaveField("Node", ""))}, bound...)...))
		Expect(p.Status.OmittedDecisions).To(BeEquivalentTo(2), "6 were made, 4 are shown")
		Expect(p.Status.LastDecisionTime.Time).To(BeTemporally("==", p.Status.RecentDecisions[0].Time.Time))
	})

	It("says where a pod is that waits on Permit, and where one is that is being bound", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, publishingEvery(1), sluicedAt(atPermit), sluicedAt(atPreBind))
		aNode(ctx, y.node("n"))
		allow, bind := sluices.permit.close(), sluices.preBind.close()
		defer allow()
		defer bind()
		pod := aPod(ctx, y.pod(p, "web"))
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{Pending: 1, Waiting: 1})))
		Eventually(func(g Gomega) string { admin.Place(ctx, pod)(g); return pod.Status.NominatedNodeName }).
			Should(Equal(y.name+"-n"), "autoscalers are told where it is going")
		allow()
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{InFlight: 1})))
		bind()
		admin.ExpectBound(ctx, pod)
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
	})

	It("begins its totals anew under a name that is used again", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		p := aProfileNamed(ctx, y.name, publishingEvery(1))
		aNode(ctx, y.node("n"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "first")))
		Eventually(published(ctx, p)).Should(HaveField("Bound", BeEquivalentTo(1)))
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeFalse())
		p = aProfileNamed(ctx, y.name, publishingEvery(1))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "second")))
		Eventually(published(ctx, p)).Should(HaveValue(HaveField("Bound", BeEquivalentTo(1))))
		Expect(p.Status.RecentDecisions).To(HaveExactElements(HaveField("Pod", "second")))
	})
})

var _ = Describe("A pod that is deleted while it waits", func() {
	It("leaves nothing behind, wherever it waited", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, publishingEvery(1), neverFlushing, sluicedAt(atPermit), sluicedAt(atPreBind))
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		allow, bind := sluices.permit.close(), sluices.preBind.close()
		defer allow()
		defer bind()
		onPermit := aPod(ctx, y.pod(p, "on-permit").Requests("cpu", "1"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		pods := []*v1.Pod{
			onPermit,
			aPod(ctx, y.pod(p, "unfit").Requests("cpu", "2")),
			aPod(ctx, y.pod(p, "gated").SchedulingGate("example.com/quota")),
			aPod(ctx, unhonoured(y.pod(p, "unsupported"))),
		}
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{
			Pending: 4, Waiting: 1, Unschedulable: 1, Gated: 1, Held: 1,
		})))
		for _, pod := range pods {
			admin.Remove(ctx, pod)
		}
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))

		By("nor does one that is being bound; its room is another's")
		allow()
		inFlight := aPod(ctx, y.pod(p, "in-flight").Requests("cpu", "1"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
		next := aPod(ctx, y.pod(p, "next").Requests("cpu", "1"))
		expectHeld(ctx, v1.PodReasonUnschedulable, next)
		admin.Remove(ctx, inFlight)
		bind()
		admin.ExpectBound(ctx, next)
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(inFlight), &v1.Pod{}))).To(Succeed())
		Eventually(queueIn(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
		Eventually(published(ctx, p)).Should(HaveField("Bound", BeEquivalentTo(1)))
	})
})

// queueIn reads a profile again and returns where its status says pods are.
func queueIn(ctx SpecContext, p *v1alpha1.SchedulingProfile) func(g Gomega) *v1alpha1.QueueStatus {
	return func(g Gomega) *v1alpha1.QueueStatus {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		return p.Status.Queue
	}
}

func ofPod(y yard, name string, result v1alpha1.DecisionResult) gomegatypes.GomegaMatcher {
	return SatisfyAll(HaveField("Namespace", y.name), HaveField("Pod", name), HaveField("Result", result), HaveField("Time.Time", Not(BeZero())))
}
