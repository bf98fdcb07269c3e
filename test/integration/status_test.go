package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/faultproxy"
)

var _ = Describe("The decisions of a profile", func() {
	It("are published by a field manager of their own, and start no reconcile", minute, func(ctx SpecContext) {
		p := createProfile(ctx, publishEvery(1))
		expectReady(ctx, p)
		Eventually(publishedTotals(ctx, p)).ShouldNot(BeNil(), "zero, before the first decision")
		berth.Ledger().Record(decision.Decision{
			Time: time.Now(), Namespace: "shop", Pod: "web-1", Result: v1alpha1.ResultBound, Node: "n1",
			Profile: p.Name, Generation: 1, Hash: p.Status.Programmed.Hash, Evaluated: 5, Feasible: 5,
		})
		berth.Ledger().Record(decision.Decision{
			Time: time.Now(), Namespace: "shop", Pod: "web-2", Result: v1alpha1.ResultUnschedulable,
			Profile: p.Name, Generation: 1, Hash: p.Status.Programmed.Hash, Message: "0/5 nodes are available: 5 Insufficient cpu.",
		})
		Eventually(publishedTotals(ctx, p)).Should(SatisfyAll(HaveField("Bound", int64(1)), HaveField("Refusals", int64(1))))
		Expect(p.Status.RecentDecisions).To(HaveExactElements(
			SatisfyAll(HaveField("Pod", "web-2"), HaveField("Node", ""), HaveField("Message", HavePrefix("0/5 nodes"))),
			SatisfyAll(HaveField("Pod", "web-1"), HaveField("Node", "n1"), HaveField("Message", ""))))
		Expect(p.Status.LastDecisionTime).NotTo(BeNil())
		Expect(p.Status.OmittedDecisions).To(BeZero())
		Expect(conditions(p)).To(HaveLen(len(readyConditions)), "the publisher removes no condition")

		Expect(statusManagers(p)).To(ConsistOf("berth-controller", "berth-scheduler"))

		By("the conditions change")
		editProfile(ctx, p, enableScore("NoSuch"))
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Ready False UnknownPlugin"))
		Expect(p.Status.Totals.Bound).To(BeEquivalentTo(1))
		Expect(p.Status.RecentDecisions).To(HaveLen(2))

		By("the publisher writes")
		// Profiles of other specs may be about to be deleted, or at the end of their
		// probation, and be reconciled for that.
		Eventually(func(g Gomega) {
			visits, bound := reconcileTotal("schedulingprofile"), p.Status.Totals.Bound
			berth.Ledger().Record(decision.Decision{Time: time.Now(), Pod: "web", Result: v1alpha1.ResultBound, Profile: p.Name})
			Eventually(publishedTotals(ctx, p)).Should(HaveField("Bound", bound+1))
			g.Expect(reconcileTotal("schedulingprofile")).To(Equal(visits))
		}).WithTimeout(eventuallyTimeout).Should(Succeed())
	})

	It("are in the columns of kubectl get", minute, func(ctx SpecContext) {
		p := createProfile(ctx, publishEvery(1))
		expectReady(ctx, p)
		berth.Ledger().Record(decision.Decision{Time: time.Now(), Pod: "web", Result: v1alpha1.ResultBound, Profile: p.Name})
		Eventually(func() (string, error) { return kubectl(ctx, "get", "sprof", p.Name) }).Should(SatisfyAll(
			MatchRegexp(`STATE +READY +GEN +RUNS +PENDING +BOUND +LAST +AGE`),
			MatchRegexp(p.Name+` +Active +True +1 +1 +0 +1 +\S+ +\S+`)))
	})
})

// publishedTotals reads a profile and returns its totals.
func publishedTotals(ctx SpecContext, p *v1alpha1.SchedulingProfile) func(g Gomega) *v1alpha1.DecisionTotals {
	return func(g Gomega) *v1alpha1.DecisionTotals {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		return p.Status.Totals
	}
}

// statusManagers returns the field managers of an object's status.
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

// reconcileTotal returns the number of reconciles of a controller in this process.
func reconcileTotal(controller string) float64 {
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

var _ = Describe("The status of a profile", func() {
	It("agrees with its pods", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, publishEvery(1), setHistory(4), neverFlush)
		createNode(ctx, env.node("n").Capacity("cpu", "5"))
		expectReady(ctx, p)
		var last decisionRecord
		for i := range 5 {
			last = boundRecord(ctx, createPod(ctx, env.pod(p, fmt.Sprint("web-", i)).Requests("cpu", "1")))
			// The decision is recorded after the Binding, and before the pod leaves the queue.
			Eventually(queueCounts(p)).Should(BeZero())
		}
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "1"))
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
		createPod(ctx, env.pod(p, "gated").SchedulingGate("example.com/quota"))

		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{
			Pending: 2, Unschedulable: 1, Gated: 1,
		})))
		Eventually(publishedTotals(ctx, p)).Should(SatisfyAll(
			HaveField("Bound", BeEquivalentTo(5)), HaveField("Refusals", BeEquivalentTo(1)),
			HaveField("Errors", BeZero()), HaveField("Victims", BeZero()), HaveField("DecisionsDropped", BeZero())))
		Expect(p.Status.Totals.Since.Time).To(BeTemporally("<=", p.Status.LastDecisionTime.Time))
		var bound []any
		for i := range 3 {
			bound = append(bound, SatisfyAll(matchDecision(env, fmt.Sprint("web-", 4-i), v1alpha1.ResultBound),
				HaveField("Node", last.Node), HaveField("Hash", last.Hash), HaveField("Generation", last.Generation)))
		}
		Expect(p.Status.RecentDecisions).To(HaveExactElements(append([]any{
			SatisfyAll(matchDecision(env, "unfit", v1alpha1.ResultUnschedulable),
				HaveField("Message", HavePrefix("0/1 nodes are available: 1 Insufficient cpu.")), HaveField("Node", ""))}, bound...)...))
		Expect(p.Status.OmittedDecisions).To(BeEquivalentTo(2), "6 were made, 4 are kept")
		Expect(p.Status.LastDecisionTime.Time).To(BeTemporally("==", p.Status.RecentDecisions[0].Time.Time))
	})

	It("counts a pod that waits on Permit, and one that is being bound", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, publishEvery(1), blockAt(permitSet), blockAt(preBindSet))
		createNode(ctx, env.node("n"))
		allow, bind := gates.permit.shutGate(), gates.preBind.shutGate()
		defer allow()
		defer bind()
		pod := createPod(ctx, env.pod(p, "web"))
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{Pending: 1, Waiting: 1})))
		Eventually(admin.NominatedNode(ctx, pod)).Should(Equal(env.namespace+"-n"), "autoscalers read the nominated node")
		allow()
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{InFlight: 1})))
		bind()
		admin.ExpectBound(ctx, pod)
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
	})

	It("has new totals when a profile of the same name is created again", minute, func(ctx SpecContext) {
		env := newTestEnv(ctx)
		p := createProfileNamed(ctx, env.namespace, publishEvery(1))
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "first")))
		Eventually(publishedTotals(ctx, p)).Should(HaveField("Bound", BeEquivalentTo(1)))
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeFalse())
		p = createProfileNamed(ctx, env.namespace, publishEvery(1))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "second")))
		Eventually(publishedTotals(ctx, p)).Should(HaveValue(HaveField("Bound", BeEquivalentTo(1))))
		Expect(p.Status.RecentDecisions).To(HaveExactElements(HaveField("Pod", "second")))
	})
})

// It is the only use of the permission to get a PluginConfig that no chance decides: see
// rights_test.go.
var _ = Describe("The status of a PluginConfig", func() {
	It("is written although another client changes the object just before", minute, func(ctx SpecContext) {
		stopManager()
		cfg := accountConfig(ctx)
		proxy, err := faultproxy.Start(cfg)
		Expect(err).NotTo(HaveOccurred())
		berth = runManager(proxy.Config(cfg), nil, suiteOptions()...)
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			proxy.Stop()
			berth = startManager(ctx)
		}, managerTimeout)
		named := metav1.ObjectMeta{Name: newTestEnv(ctx).namespace}
		changed := &atomic.Bool{}
		proxy.SetWriteFaults(func(w faultproxy.Write) *faultproxy.Fault {
			if w.Method == http.MethodPatch && strings.HasSuffix(w.Path, "/pluginconfigs/"+named.Name+"/status") && changed.CompareAndSwap(false, true) {
				defer GinkgoRecover()
				Expect(admin.Patch(ctx, &v1alpha1.PluginConfig{ObjectMeta: named}, mergePatch(`{"metadata":{"labels":{"touched":"yes"}}}`))).To(Succeed())
			}
			return nil
		})

		c := apitest.Created(ctx, admin, fitConfig(named, scoringStrategy("MostAllocated")))
		Eventually(currentConditions(ctx, c)).Should(ContainElement(HavePrefix("Accepted True ")))
		Eventually(auditLog.Entries).Should(ContainElement(SatisfyAll(HaveField("Verb", "get"),
			HaveField("ObjectRef.Resource", "pluginconfigs"), HaveField("ObjectRef.Name", named.Name))), "it is read after the conflict")
	})
})

var _ = Describe("A pod that is deleted while it is pending", func() {
	It("is removed from every place", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, publishEvery(1), neverFlush, blockAt(permitSet), blockAt(preBindSet))
		createNode(ctx, env.node("n").Capacity("cpu", "1"))
		expectReady(ctx, p)
		allow, bind := gates.permit.shutGate(), gates.preBind.shutGate()
		defer allow()
		defer bind()
		onPermit := createPod(ctx, env.pod(p, "on-permit").Requests("cpu", "1"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		pods := []*v1.Pod{
			onPermit,
			createPod(ctx, env.pod(p, "unfit").Requests("cpu", "2")),
			createPod(ctx, env.pod(p, "gated").SchedulingGate("example.com/quota")),
		}
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{
			Pending: 3, Waiting: 1, Unschedulable: 1, Gated: 1,
		})))
		for _, pod := range pods {
			admin.Remove(ctx, pod)
		}
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))

		By("a pod is deleted while it is being bound, and another takes the room")
		allow()
		inFlight := createPod(ctx, env.pod(p, "in-flight").Requests("cpu", "1"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
		next := createPod(ctx, env.pod(p, "next").Requests("cpu", "1"))
		expectReason(ctx, v1.PodReasonUnschedulable, next)
		admin.Remove(ctx, inFlight)
		bind()
		admin.ExpectBound(ctx, next)
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(inFlight), &v1.Pod{}))).To(Succeed())
		Eventually(queueStatus(ctx, p)).Should(HaveValue(Equal(v1alpha1.QueueStatus{})))
		Eventually(publishedTotals(ctx, p)).Should(HaveField("Bound", BeEquivalentTo(1)))
	})
})

// queueStatus reads a profile and returns its status.queue.
func queueStatus(ctx SpecContext, p *v1alpha1.SchedulingProfile) func(g Gomega) *v1alpha1.QueueStatus {
	return func(g Gomega) *v1alpha1.QueueStatus {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		return p.Status.Queue
	}
}

func matchDecision(env testEnv, name string, result v1alpha1.DecisionResult) gomegatypes.GomegaMatcher {
	return SatisfyAll(HaveField("Namespace", env.namespace), HaveField("Pod", name), HaveField("Result", result), HaveField("Time.Time", Not(BeZero())))
}

// kubectl wait accepts a condition only if its observedGeneration is not older than
// metadata.generation. So no condition may have the generation before it is true of it: not
// before the first reconcile, not during a build, and not when a name is used again.
var _ = Describe("kubectl wait", func() {
	const ready = "--for=condition=Ready"

	It("returns when an edit runs, and not while it is built", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())

		open := slowBuildGate.shutGate()
		defer open()
		editProfile(ctx, p, enablePostBind(slowBuild))
		_, err := kubectl(ctx, "wait", ready, "--timeout=10s", "sprof/"+p.Name)
		Expect(err).To(MatchError(ContainSubstring("timed out")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Expect(meta.IsStatusConditionTrue(conditions(p), string(v1alpha1.ConditionReady))).To(BeTrue(), "of generation 1")

		open()
		Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(2))
	})

	It("accepts neither the generation before a bad edit nor the bad edit", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		for range 3 {
			editProfile(ctx, p, enableScore("NoSuch"))
			Expect(kubectl(ctx, "wait", ready, "--timeout=0", "sprof/"+p.Name)).Error().To(HaveOccurred())
			Eventually(currentConditions(ctx, p)).Should(ContainElement("Ready False UnknownPlugin"))
			editProfile(ctx, p, resetPlugins)
			Expect(kubectl(ctx, "wait", ready, "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
		}
	})

	It("returns at once for Stalled", minute, func(ctx SpecContext) {
		p := createProfile(ctx, enableScore("NoSuch"))
		Expect(kubectl(ctx, "wait", "--for=condition=Stalled", "--timeout=30s", "sprof/"+p.Name)).Error().NotTo(HaveOccurred())
	})

	It("does not accept conditions from before the manager stopped", minutes, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		stopManager()
		editProfile(ctx, p, enableScore("NoSuch"))
		_, err := kubectl(ctx, "wait", ready, "--timeout=10s", "sprof/"+p.Name)
		berth = startManager(ctx)
		Expect(err).To(MatchError(ContainSubstring("timed out")))

		By("the next leader reconciles every profile")
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Ready False UnknownPlugin", "Programmed False PreviousRuns"))
	})
})

// The status writer depends on this behaviour of the API server.
var _ = Describe("A status patch by server-side apply", func() {
	It("fails for another resourceVersion, and does not check the UID", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		owner := client.FieldOwner("integration")
		over := func(version string) error {
			return admin.Status().Apply(ctx, berthac.SchedulingProfile(p.Name).WithResourceVersion(version).
				WithStatus(berthac.SchedulingProfileStatus().WithOmittedDecisions(1)), owner, client.ForceOwnership)
		}
		was := p.ResourceVersion
		editProfile(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.PercentageOfNodesToScore = 50 })
		Expect(over(was)).To(Satisfy(apierrors.IsConflict))

		Expect(admin.Status().Apply(ctx, berthac.SchedulingProfile(p.Name).WithUID(types.UID("another")).
			WithStatus(berthac.SchedulingProfileStatus().WithOmittedDecisions(1)), owner, client.ForceOwnership)).To(Succeed())
	})
})
