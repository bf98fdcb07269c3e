package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("Two Managers in one process", func() {
	It("have metrics of their own, and one that loses the Lease ends without the other", minute, func(ctx SpecContext) {
		stopManager()
		DeferCleanup(func(ctx SpecContext) { berth = startManager(ctx) })
		start := func() (*operator.InProcess, *prometheus.Registry) {
			registry := prometheus.NewRegistry()
			m := runManager(accountConfig(ctx), operator.SteadyLease, suiteOptions(manager.WithMetricsRegistry(registry))...)
			DeferCleanup(func() { _ = m.Stop() }) // the spec checks what Stop returns
			return m, registry
		}
		leader, leaderMetrics := start()
		Eventually(leader.Elected()).Should(BeClosed())
		follower, followerMetrics := start()
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "by-the-leader")))
		Eventually(follower.Ready).Should(Succeed())
		Expect(follower.Elected()).NotTo(BeClosed())

		By("the registries")
		Expect(hasMetric(leaderMetrics, "berth_rebinds_total")).To(BeTrue())
		Expect(hasMetric(followerMetrics, "berth_rebinds_total")).To(BeTrue())
		Expect(hasMetric(metrics.Registry, "berth_rebinds_total")).To(BeFalse(), "a Manager registers nothing in the registry of the process")

		By("another process takes the Lease")
		takeLease(ctx)
		Eventually(leader.Ended).Should(BeClosed())
		Expect(leader.Stop()).To(MatchError(manager.ErrLeaseLost))
		Expect(follower.Ended).NotTo(BeClosed())
		admin.ExpectBound(ctx, createPod(ctx, env.pod(p, "by-the-follower")))
		Eventually(follower.Elected()).Should(BeClosed())
		Expect(follower.Stop()).To(Succeed())
	})
})

var _ = Describe("The informers of these specs", func() {
	It("keep the same fields of pods as those of a shipped manager", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		pod := createPod(ctx, env.pod(p, "with-a-command").Requests("cpu", "1").Mutate(func(pod *v1.Pod) {
			pod.Spec.Containers[0].Command = []string{"sleep", "infinity"}
			pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "COLOUR", Value: "blue"}}
		}))
		Eventually(func(g Gomega) {
			kept, err := berth.Informers().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(kept.Spec.Containers[0].Image).NotTo(BeEmpty())
			g.Expect(kept.Spec.Containers[0].Command).To(BeEmpty())
			g.Expect(kept.Spec.Containers[0].Env).To(BeEmpty())
			g.Expect(kept.ManagedFields).To(BeEmpty())
		}).Should(Succeed())
	})
})

// hasMetric reports whether a registry has metrics of this name.
func hasMetric(registry prometheus.Gatherer, name string) bool {
	GinkgoHelper()
	families, err := registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == name {
			return true
		}
	}
	return false
}

// takeLease writes another holder into the Lease, which does not renew it.
func takeLease(ctx context.Context) {
	GinkgoHelper()
	leases := cp.Client().CoordinationV1().Leases(namespace)
	Eventually(func(g Gomega) { // the leader renews it meanwhile
		lease, err := leases.Get(ctx, "berth-manager", metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("another"), ptr.To(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
}

var _ = Describe("The manager of these specs", func() {
	It("has the shipped ServiceAccount, and no permission that is not shipped", minute, func(ctx SpecContext) {
		api, err := kubernetes.NewForConfig(accountConfig(ctx))
		Expect(err).NotTo(HaveOccurred())
		review, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(review.Status.UserInfo.Username).To(Equal("system:serviceaccount:berth-system:berth-manager"))
		Expect(review.Status.UserInfo.Groups).To(ConsistOf(
			"system:serviceaccounts", "system:serviceaccounts:berth-system", "system:authenticated"))

		may := func(verb, resource, subresource string) bool {
			review, err := api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: verb, Resource: resource, Subresource: subresource,
				}},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return review.Status.Allowed
		}
		Expect(may("create", "pods", "binding")).To(BeTrue())
		Expect(may("patch", "pods", "status")).To(BeTrue())
		Expect(may("update", "pods", "")).To(BeFalse())
		Expect(may("get", "secrets", "")).To(BeFalse())
	})
})

var _ = Describe("A change of the leader", func() {
	It("lets the new leader bind the pods, and the old one writes nothing more", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush, blockAt(preBindSet))
		watch := watchPods(ctx, env)
		node := createNode(ctx, env.node("n").Capacity("cpu", "2"))
		unfit := createPod(ctx, env.pod(p, "unfit").Requests("cpu", "3"))
		expectReason(ctx, v1.PodReasonUnschedulable, unfit)
		open := gates.preBind.shutGate()
		defer open()
		begun := createPod(ctx, env.pod(p, "begun").Requests("cpu", "1"))
		Eventually(queueCounts(p)).Should(HaveField("InFlight", 1))

		stopManager()
		open()
		meanwhile := createPod(ctx, env.pod(p, "meanwhile").Requests("cpu", "1").NodeSelector(v1.LabelHostname, node.Name))
		createNode(ctx, env.node("big").Capacity("cpu", "3").Taint("for", "unfit", v1.TaintEffectNoSchedule))
		apitest.Change(ctx, admin, unfit, func(pod *v1.Pod) {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: "for", Operator: v1.TolerationOpExists})
		})
		berth = startManager(ctx)
		admin.ExpectBound(ctx, begun, meanwhile, unfit)
		Eventually(watch.conditionChanges(begun)).Should(ContainElement("True"))
		Expect(watch.conditionChanges(begun)()).To(HaveExactElements(HavePrefix("Unknown LeaderHandover"), Equal("True")), "no SchedulerError")
	})
})

var _ = Describe("A follower", func() {
	It("runs what the leader runs, and writes statuses when it leads", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		expectReady(ctx, p)
		leader := berth
		Eventually(leader.Elected()).Should(BeClosed())
		berth = startManager(ctx)
		Eventually(func() bool { _, runs := berth.Scheduler().Profiles().Running(p.Name); return runs }).Should(BeTrue())
		Expect(berth.Elected()).NotTo(BeClosed())

		Expect(leader.Stop()).To(Succeed())
		editProfile(ctx, p, enableScore("NoSuch"))
		Eventually(berth.Elected()).Should(BeClosed())
		Eventually(currentConditions(ctx, p)).Should(ContainElements("Ready False UnknownPlugin", "Programmed False PreviousRuns"))
		Expect(p.Status.Programmed.Generation).To(BeEquivalentTo(1), "built while it followed")
	})
})

// probePaths are all paths of a manager's address for probes.
var probePaths = []string{
	"/livez", "/livez/ping", "/livez/loop", "/livez/leader-election",
	"/healthz", "/healthz/ping", "/healthz/loop", "/healthz/leader-election",
	"/readyz", "/readyz/ping", "/readyz/cluster", "/readyz/crds", "/readyz/profiles", "/readyz/shutdown",
}

var _ = Describe("A replica that starts", func() {
	It("is not ready while it would reject what the leader runs, and reports it in an Event", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, enablePostBind(slowBuild))
		expectReady(ctx, p)
		pod := createPod(ctx, env.pod(p, "waits-for-a-node"))
		addresses, err := controlplane.FreeAddresses(1)
		Expect(err).NotTo(HaveOccurred())
		other := runManager(accountConfig(ctx), []string{"--health-probe-bind-address=" + addresses[0]}, manager.WithVersion(version))
		DeferCleanup(func() { Expect(other.Stop()).To(Succeed()) })
		Eventually(operator.Get).WithArguments(ctx, "http://"+addresses[0]+"/readyz/profiles").Should(
			SatisfyAll(HavePrefix("500 "), ContainSubstring("would refuse what runs of ")))
		Eventually(objectEvents(ctx, p)).Should(ContainElement("Warning ReplicaNotReady Start"))
		for _, path := range probePaths {
			for _, query := range []string{"", "?verbose", "?verbose&exclude=ping"} {
				answer, err := operator.Get(ctx, "http://"+addresses[0]+path+query)
				Expect(err).NotTo(HaveOccurred())
				Expect(answer).To(MatchRegexp("^(200|500) "), path+query)
				for _, name := range []string{p.Name, pod.Name, pod.Namespace} {
					Expect(answer).NotTo(ContainSubstring(name), "a client of "+path+query+" is not authenticated")
				}
			}
		}
		expectReady(ctx, p)
		Expect(berth.Ready()).To(Succeed(), "the leader is ready")

		editProfile(ctx, p, resetPlugins)
		Eventually(other.Ready).Should(Succeed())
	})
})

var _ = Describe("A process with leader election in a namespace that does not exist", func() {
	It("ends with an error", minute, func(ctx SpecContext) {
		_, err := operator.Run(accountConfig(ctx), []string{"--namespace=nowhere"}, suiteOptions()...)
		Expect(err).To(MatchError(ContainSubstring(`--namespace: there is no namespace "nowhere" for the Lease`)))
	})
})

var _ = Describe("A cluster without a SchedulingProfile", func() {
	It("gets the default profile, each time that it has none", minute, func(ctx SpecContext) {
		var profiles v1alpha1.SchedulingProfileList
		Eventually(func(g Gomega) {
			g.Expect(admin.List(ctx, &profiles)).To(Succeed())
			g.Expect(profiles.Items).To(BeEmpty())
		}).Should(Succeed())
		p := &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "berth"}}
		stopManager()
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			Expect(client.IgnoreNotFound(admin.Delete(ctx, p))).To(Succeed())
			berth = startManager(ctx)
		})
		berth = startManager(ctx, "--default-profile="+p.Name)
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(p), p) }).Should(Succeed())
		expectReady(ctx, p)
		first := p.UID
		Expect(admin.Delete(ctx, p)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
			g.Expect(p.UID).NotTo(Equal(first))
		}).Should(Succeed())
	})
})

var _ = Describe("The profile default-scheduler", func() {
	It("waits until kube-scheduler's Lease has expired, unless it is annotated", minute, func(ctx SpecContext) {
		stopManager()
		DeferCleanup(func(ctx SpecContext) { stopManager(); berth = startManager(ctx) })
		berth = startManager(ctx, "--other-scheduler-lease=kube-system/kube-scheduler")
		apitest.Created(ctx, admin, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				// By the clock of its holder it expired an hour ago.
				HolderIdentity: ptr.To("master-1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour))),
			},
		})
		p := createProfileNamed(ctx, "default-scheduler")
		Eventually(currentConditions(ctx, p)).Should(ConsistOf("Accepted False NameServedElsewhere", "ResolvedRefs True ResolvedRefs",
			"Programmed False NothingRuns", "Ready False NameServedElsewhere", "Stalled True NameServedElsewhere"))
		Expect(conditionMessage(p, v1alpha1.ConditionReady)).To(ContainSubstring("master-1"))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, v1alpha1.AnnotationTakeOver+"=true")).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
	})

	It("does not run where the manager does not know whether another scheduler runs", minute, func(ctx SpecContext) {
		p := createProfileNamed(ctx, "default-scheduler")
		Eventually(currentConditions(ctx, p)).Should(ContainElement("Accepted False NameServedElsewhere"))
		Expect(conditionMessage(p, v1alpha1.ConditionAccepted)).To(ContainSubstring("start Berth with --other-scheduler-lease"))
	})
})
