package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

var _ = Describe("What was decided", func() {
	It("is published under a field manager of its own, and wakes no reconcile", minute, func(ctx SpecContext) {
		p := aProfile(ctx, publishingEvery(1))
		expectReady(ctx, p)
		Eventually(published(ctx, p)).ShouldNot(BeNil(), "zeroes, before anything was decided")
		berth.Ledger().Record(decision.Decision{
			Time: time.Now(), Namespace: "shop", Pod: "web-1", Result: v1alpha1.ResultBound, Node: "n1",
			Profile: p.Name, Generation: 1, Hash: p.Status.Programmed.Hash, Evaluated: 5, Feasible: 5,
		})
		berth.Ledger().Record(decision.Decision{
			Time: time.Now(), Namespace: "shop", Pod: "web-2", Result: v1alpha1.ResultUnschedulable,
			Profile: p.Name, Generation: 1, Hash: p.Status.Programmed.Hash, Message: "0/5 nodes are available: 5 Insufficient cpu.",
		})
		Eventually(published(ctx, p)).Should(SatisfyAll(HaveField("Bound", int64(1)), HaveField("Refusals", int64(1))))
		Expect(p.Status.RecentDecisions).To(HaveExactElements(
			SatisfyAll(HaveField("Pod", "web-2"), HaveField("Node", ""), HaveField("Message", HavePrefix("0/5 nodes"))),
			SatisfyAll(HaveField("Pod", "web-1"), HaveField("Node", "n1"), HaveField("Message", ""))))
		Expect(p.Status.LastDecisionTime).NotTo(BeNil())
		Expect(p.Status.OmittedDecisions).To(BeZero())
		Expect(conditions(p)).To(HaveLen(len(all)), "the publisher takes no condition away")

		Expect(statusManagers(p)).To(ConsistOf("berth-controller", "berth-scheduler"))

		By("and a verdict takes no counter away")
		edit(ctx, p, scoring("NoSuch"))
		Eventually(now(ctx, p)).Should(ContainElement("Ready False UnknownPlugin"))
		Expect(p.Status.Totals.Bound).To(BeEquivalentTo(1))
		Expect(p.Status.RecentDecisions).To(HaveLen(2))

		By("and what is published wakes nobody")
		// Profiles of other specs may be on their way out, or at the end of their
		// probation: what wakes a reconcile by itself does so each time.
		Eventually(func(g Gomega) {
			visits, bound := reconciles("schedulingprofile"), p.Status.Totals.Bound
			berth.Ledger().Record(decision.Decision{Time: time.Now(), Pod: "web", Result: v1alpha1.ResultBound, Profile: p.Name})
			Eventually(published(ctx, p)).Should(HaveField("Bound", bound+1))
			g.Expect(reconciles("schedulingprofile")).To(Equal(visits))
		}).WithTimeout(patience).Should(Succeed())
	})

	It("shows in the columns of kubectl get", minute, func(ctx SpecContext) {
		p := aProfile(ctx, publishingEvery(1))
		expectReady(ctx, p)
		berth.Ledger().Record(decision.Decision{Time: time.Now(), Pod: "web", Result: v1alpha1.ResultBound, Profile: p.Name})
		Eventually(func() (string, error) { return kubectl(ctx, "get", "sprof", p.Name) }).Should(SatisfyAll(
			MatchRegexp(`STATE +READY +GEN +RUNS +PENDING +BOUND +LAST +AGE`),
			MatchRegexp(p.Name+` +Active +True +1 +1 +0 +1 +\S+ +\S+`)))
	})
})

// published reads a profile again and returns its totals.
func published(ctx SpecContext, p *v1alpha1.SchedulingProfile) func(g Gomega) *v1alpha1.DecisionTotals {
	return func(g Gomega) *v1alpha1.DecisionTotals {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		return p.Status.Totals
	}
}

// statusManagers are the field managers that wrote to an object's status.
func statusManagers(object client.Object) []string {
	var out []string
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "status" {
			Expect(entry.Operation).To(Equal(metav1.ManagedFieldsOperationApply))
			out = append(out, entry.Manager)
		}
	}
	return out
}

// reconciles counts the visits of a controller in this process.
func reconciles(controller string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var total float64
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && label.GetValue() == controller {
					total += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return total
}
