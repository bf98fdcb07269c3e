package integration

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/berthdev/berth/api/v1alpha1"
	manager "github.com/berthdev/berth/operator"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("An extender that wants to know who asks", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("is shown the certificate of a Secret, and not asked without it", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		v.says(func(v *voice) { v.filter = only(n) })
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters, func(e *v1alpha1.Extender) {
			e.TLS.ClientCertificateRef = &v1alpha1.SecretReference{Name: y.name}
		}))
		expectReady(ctx, p)
		pod := aPod(ctx, y.pod(p, "p").Requests("cpu", "1"))
		expectHeld(ctx, v1.PodReasonSchedulerError, pod)
		Expect(apitest.Scheduled(pod)).To(ContainSubstring(`extender "rack": filter: its client certificate cannot be read`))
		Expect(apitest.Scheduled(pod)).NotTo(ContainSubstring("Secret"), "what is there is nobody's business who reads pods")
		Expect(v.pods()).To(BeEmpty())

		chain, key, err := cert.GenerateSelfSignedCertKey("who-asks.example", nil, nil)
		Expect(err).NotTo(HaveOccurred())
		apitest.Created(ctx, admin, &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: y.name}, Type: v1.SecretTypeTLS,
			Data: map[string][]byte{v1.TLSCertKey: chain, v1.TLSPrivateKeyKey: key},
		})
		admin.ExpectBound(ctx, pod)
		v.says(func(v *voice) { Expect(v.callers).To(ContainElement("who-asks.example")) })
	})
})

var _ = Describe("A profile with an extender, where the manager's flags do not allow it", func() {
	It("is refused with the flag that is missing, and what ran keeps running", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		aNode(ctx, y.node("n").Capacity("cpu", "2"))
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters))
		Eventually(now(ctx, p)).Should(ContainElements("Accepted False InvalidExtender", "Ready False InvalidExtender"))
		Expect(message(p, v1alpha1.ConditionAccepted)).To(ContainSubstring(
			"spec.extenders: extenders are off: run the manager with --enable-extenders, or leave them out"))

		none := func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil }
		edit(ctx, p, none)
		expectReady(ctx, p)
		edit(ctx, p, extendedBy(v, filters))
		Eventually(now(ctx, p)).Should(ContainElements("Accepted False InvalidExtender", "Programmed False PreviousRuns"))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "p").Requests("cpu", "1")))
		Expect(v.pods()).To(BeEmpty())

		By("and where they may filter, but neither preempt nor bind")
		edit(ctx, p, none)
		stopManager()
		DeferCleanup(func(ctx SpecContext) { stopManager(); berth = startManager(ctx) })
		berth = runManager(accountConfig(ctx), []string{"--enable-extenders"}, suiteOptions(manager.WithExtenderClient(hereOnly(accountConfig(ctx))))...)
		expectReady(ctx, p)
		edit(ctx, p, extendedBy(v, preempts))
		Eventually(now(ctx, p)).Should(ContainElement("Accepted False InvalidExtender"))
		Expect(message(p, v1alpha1.ConditionAccepted)).To(ContainSubstring(
			"spec.extenders[0].verbs.preempt: extenders may not preempt: run the manager with --enable-extender-writes, or leave it out"))
		edit(ctx, p, extendedBy(v, filters))
		expectReady(ctx, p)
	})
})

var _ = Describe("The client of an extender", Ordered, ContinueOnFailure, func() {
	allowExtenders()

	It("asks nothing while its profile is on trial", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		v.says(func(v *voice) { v.filter, v.prioritize = only(n), func(string) int64 { return 10 } })
		p := aProfile(ctx, neverFlushing)
		expectRuns(ctx, aPod(ctx, y.pod(p, "runs").Requests("cpu", "1")))
		waits := aPod(ctx, y.pod(p, "waits").Requests("cpu", "4"))
		expectHeld(ctx, v1.PodReasonUnschedulable, waits)

		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) {
			s.Activation = v1alpha1.ActivationManual
			extendedBy(v, v1alpha1.ExtenderVerbs{Filter: "filter", Prioritize: "prioritize"})(s)
		})
		Eventually(now(ctx, p)).Should(ContainElement("Programmed False AwaitingApproval"))
		Expect(p.Status.Trial).To(HaveField("Sampled", BeEquivalentTo(2)))
		Expect(v.connections()).To(BeZero())

		approve(ctx, p)
		expectReady(ctx, p)
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "next").Requests("cpu", "1")))
		Expect(v.pods()).To(ContainElement("next"))
	})

	It("goes with the generation that it was made for", minute, func(ctx SpecContext) {
		v, y := aVoice(), aYard(ctx)
		n := aNode(ctx, y.node("n").Capacity("cpu", "2"))
		v.says(func(v *voice) { v.filter = only(n) })
		p := aProfile(ctx, neverFlushing, extendedBy(v, filters))
		admin.ExpectBound(ctx, aPod(ctx, y.pod(p, "p").Requests("cpu", "1")))
		expectReady(ctx, p)
		Expect(v.connections()).To(Equal(1), "which is kept for the next pod")
		edit(ctx, p, func(s *v1alpha1.SchedulingProfileSpec) { s.Extenders = nil })
		// Long before an idle connection would be closed in any case.
		Eventually(v.connections).WithTimeout(20 * time.Second).Should(BeZero())
	})
})
