package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// probePaths are all that a manager answers at its address for probes.
var probePaths = []string{
	"/livez", "/livez/ping", "/livez/loop", "/livez/leader-election",
	"/healthz", "/healthz/ping", "/healthz/loop", "/healthz/leader-election",
	"/readyz", "/readyz/ping", "/readyz/cluster", "/readyz/crds", "/readyz/profiles", "/readyz/shutdown",
}

var _ = Describe("A replica that starts", func() {
	It("is not ready while it would refuse what the leader runs, and names it in an Event", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, afterBind(slow))
		expectReady(ctx, p)
		pod := aPod(ctx, y.pod(p, "waits-for-a-node"))
		addresses, err := controlplane.FreeAddresses(1)
		Expect(err).NotTo(HaveOccurred())
		other := runManager(accountConfig(ctx), []string{"--health-probe-bind-address=" + addresses[0]}, manager.WithVersion(version))
		DeferCleanup(func() { Expect(other.Stop()).To(Succeed()) })
		Eventually(operator.Answer).WithArguments(ctx, "http://"+addresses[0]+"/readyz/profiles").Should(
			SatisfyAll(HavePrefix("500 "), ContainSubstring("would refuse what runs of ")))
		Eventually(eventsOf(ctx, p)).Should(ContainElement("Warning ReplicaNotReady Start"))
		for _, path := range probePaths {
			for _, query := range []string{"", "?verbose", "?verbose&exclude=ping"} {
				answer, err := operator.Answer(ctx, "http://"+addresses[0]+path+query)
				Expect(err).NotTo(HaveOccurred())
				Expect(answer).To(MatchRegexp("^(200|500) "), path+query)
				for _, name := range []string{p.Name, pod.Name, pod.Namespace} {
					Expect(answer).NotTo(ContainSubstring(name), "whoever asks "+path+query+" is not authenticated")
				}
			}
		}
		expectReady(ctx, p)
		Expect(berth.Ready()).To(Succeed(), "the leader is at work")

		edit(ctx, p, noPlugins)
		Eventually(other.Ready).Should(Succeed())
	})
})

var _ = Describe("A process that is to be elected in a namespace that is not there", func() {
	It("ends with an error", minute, func(ctx SpecContext) {
		_, err := operator.Run(accountConfig(ctx), []string{"--namespace=nowhere"}, suiteOptions()...)
		Expect(err).To(MatchError(ContainSubstring(`--namespace: there is no namespace "nowhere" for the Lease`)))
	})
})

var _ = Describe("A cluster without a SchedulingProfile", func() {
	It("is given the default one, as often as it has none", minute, func(ctx SpecContext) {
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
	It("waits until kube-scheduler's Lease has lapsed, unless it takes over", minute, func(ctx SpecContext) {
		stopManager()
		DeferCleanup(func(ctx SpecContext) { stopManager(); berth = startManager(ctx) })
		berth = startManager(ctx, "--other-scheduler-lease=kube-system/kube-scheduler")
		apitest.Created(ctx, admin, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"},
			Spec: coordinationv1.LeaseSpec{
				// By the clock of its holder it ran out an hour ago.
				HolderIdentity: ptr.To("master-1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(-2 * time.Hour))),
			},
		})
		p := aProfileNamed(ctx, "default-scheduler")
		Eventually(now(ctx, p)).Should(ConsistOf("Accepted False NameServedElsewhere", "ResolvedRefs True ResolvedRefs",
			"Programmed False NothingRuns", "Ready False NameServedElsewhere", "Stalled True NameServedElsewhere"))
		Expect(message(p, v1alpha1.ConditionReady)).To(ContainSubstring("master-1"))
		Expect(kubectl(ctx, "annotate", "sprof", p.Name, v1alpha1.AnnotationTakeOver+"=true")).Error().NotTo(HaveOccurred())
		expectReady(ctx, p)
	})

	It("does not run where nobody says whether another scheduler is there", minute, func(ctx SpecContext) {
		p := aProfileNamed(ctx, "default-scheduler")
		Eventually(now(ctx, p)).Should(ContainElement("Accepted False NameServedElsewhere"))
		Expect(message(p, v1alpha1.ConditionAccepted)).To(ContainSubstring("start Berth with --other-scheduler-lease"))
	})
})
