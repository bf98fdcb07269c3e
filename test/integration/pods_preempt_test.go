package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// Nobody plays the kubelet: a victim terminates until its spec removes it.
var _ = Describe("A pod that matters more", func() {
	It("evicts who matters less, and gets their room when they are gone", minute, func(ctx SpecContext) {
		y, p, classes := aYard(ctx), aProfile(ctx, neverFlushing, publishingEvery(1)), priorities(ctx, 2, v1.PreemptLowerPriority)
		node := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		low := []*v1.Pod{aPod(ctx, ranked(y.pod(p, "a").Requests("cpu", "1"), classes[0])), aPod(ctx, ranked(y.pod(p, "b").Requests("cpu", "1"), classes[0]))}
		admin.ExpectBound(ctx, low...)
		big := aPod(ctx, ranked(y.pod(p, "big").Requests("cpu", "2"), classes[1]))

		By("which it is promised, and they are told why they have to go")
		Eventually(promised(ctx, big)).Should(Equal(node.Name))
		Eventually(admin.Standing(ctx, big)).Should(HavePrefix("False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. " +
			"preemption: found a potential placement for pod on node " + node.Name + ", preempting 2 victims"))
		for _, victim := range low {
			Eventually(leaving(ctx, victim)).Should(Equal("True PreemptionByScheduler: " + p.Name + ": preempting to accommodate a higher priority pod"))
			Eventually(told(ctx, victim)).Should(ContainElement(
				fmt.Sprintf("Normal Preempted Preempting by %s: Preempted by pod %s on node %s", p.Name, big.UID, node.Name)))
		}

		By("and nobody else")
		admin.Remove(ctx, low[0])
		small := aPod(ctx, ranked(y.pod(p, "small").Requests("cpu", "1"), classes[0]))
		expectHeld(ctx, v1.PodReasonUnschedulable, small)
		Expect(admin.Place(ctx, big)(Default)).To(BeEmpty())

		admin.Remove(ctx, low[1])
		Eventually(admin.Place(ctx, big)).Should(Equal(node.Name))
		Expect(big.Status.NominatedNodeName).To(BeEmpty(), "it is where it was promised room")
		Eventually(published(ctx, p)).Should(HaveField("Victims", BeEquivalentTo(2)))
	})

	It("spares whom a budget protects as long as others will do", minute, func(ctx SpecContext) {
		y, p, classes := aYard(ctx), aProfile(ctx, neverFlushing), priorities(ctx, 3, v1.PreemptLowerPriority)
		var low [2]*v1.Pod
		for i, app := range []string{"kept", "free"} {
			node := aNode(ctx, y.node(app).Capacity("cpu", "1"))
			low[i] = aPod(ctx, ranked(y.pod(p, app).Label("app", app).Requests("cpu", "1").NodeSelector(v1.LabelHostname, node.Name), classes[i]))
		}
		admin.ExpectBound(ctx, low[:]...)
		aBudget(ctx, y, "kept")
		first := aPod(ctx, ranked(y.pod(p, "first").Requests("cpu", "1"), classes[2]))
		Eventually(promised(ctx, first)).Should(Equal(low[1].Spec.NodeName), "although that pod matters more")
		Expect(leaving(ctx, low[0])(Default)).To(BeEmpty())

		By("and not when nobody else would make room")
		second := aPod(ctx, ranked(y.pod(p, "second").Requests("cpu", "1"), classes[2]))
		Eventually(promised(ctx, second)).Should(Equal(low[0].Spec.NodeName))
		Eventually(leaving(ctx, low[0])).ShouldNot(BeEmpty())
	})

	It("evicts nobody when its policy is Never", minute, func(ctx SpecContext) {
		y, p, classes := aYard(ctx), aProfile(ctx, neverFlushing), priorities(ctx, 2, v1.PreemptNever)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		low := aPod(ctx, ranked(y.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(admin.Standing(ctx, high)).Should(HaveSuffix("preemption: not eligible due to preemptionPolicy=Never."))
		Expect(high.Status.NominatedNodeName).To(BeEmpty())
		Expect(leaving(ctx, low)(Default)).To(BeEmpty())
	})

	It("leaves the room that it was promised to others when it is deleted", minute, func(ctx SpecContext) {
		y, p, classes := aYard(ctx), aProfile(ctx, neverFlushing), priorities(ctx, 2, v1.PreemptLowerPriority)
		node := aNode(ctx, y.node("n").Capacity("cpu", "1"))
		low := aPod(ctx, ranked(y.pod(p, "low").Requests("cpu", "1"), classes[0]))
		admin.ExpectBound(ctx, low)
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[1]))
		Eventually(promised(ctx, high)).Should(Equal(node.Name))
		room := func() int { return len(berth.Scheduler().Components().Cache.NominatedPodsForNode(node.Name)) }
		Expect(room()).To(Equal(1))
		admin.Remove(ctx, high)
		Eventually(room).Should(BeZero())
		next := aPod(ctx, ranked(y.pod(p, "next").Requests("cpu", "1"), classes[0]))
		expectHeld(ctx, v1.PodReasonUnschedulable, next)
		admin.Remove(ctx, low)
		admin.ExpectBound(ctx, next)
	})

	It("stops in memory who is on its way only", minute, func(ctx SpecContext) {
		y, classes := aYard(ctx), priorities(ctx, 2, v1.PreemptLowerPriority)
		slow, p := aProfile(ctx, neverFlushing, sluicedAt(atPermit)), aProfile(ctx, neverFlushing)
		expectReady(ctx, slow)
		aNode(ctx, y.node("n").Capacity("cpu", "1"))
		allow := sluices.permit.close()
		defer allow()
		low := aPod(ctx, ranked(y.pod(slow, "low").Requests("cpu", "1"), classes[0]))
		Eventually(waiting(slow)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		high := aPod(ctx, ranked(y.pod(p, "high").Requests("cpu", "1"), classes[1]))
		admin.ExpectBound(ctx, high)
		Eventually(waiting(slow)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		Expect(leaving(ctx, low)(Default)).To(BeEmpty(), "it is not deleted")
		Expect(promised(ctx, low)(Default)).To(BeEmpty())
	})
})

// ranked gives a pod the priority of a class.
func ranked(pod *fixture.PodBuilder, class string) *fixture.PodBuilder {
	return pod.Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = class })
}

// promised reads a pod again and returns the node where room is kept for it.
func promised(ctx context.Context, pod *v1.Pod) func(g Gomega) string {
	return func(g Gomega) string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		return pod.Status.NominatedNodeName
	}
}

// leaving reads a pod again and returns, when it terminates, its
// DisruptionTarget condition as "status reason: message".
func leaving(ctx context.Context, pod *v1.Pod) func(g Gomega) string {
	return func(g Gomega) string {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		if pod.DeletionTimestamp == nil {
			return ""
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.DisruptionTarget {
				return fmt.Sprint(c.Status, " ", c.Reason, ": ", c.Message)
			}
		}
		return "terminates without a reason"
	}
}

// aBudget protects all pods of an app. No controller is here to say so.
func aBudget(ctx context.Context, y yard, app string) {
	GinkgoHelper()
	least := intstr.FromInt32(1)
	budget := apitest.Created(ctx, admin, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: y.name, Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: fixture.LabelSelector("app", app)},
	})
	watched := berth.Informers().Policy().V1().PodDisruptionBudgets().Lister().PodDisruptionBudgets(y.name)
	Eventually(func() error { _, err := watched.Get(budget.Name); return err }).Should(Succeed())
}
