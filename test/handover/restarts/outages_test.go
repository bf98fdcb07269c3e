package main

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// outage is for how long the API server is away: longer than a Lease of the shipped
// duration is good.
const outage = 30 * time.Second

var _ = Describe("Two replicas with the shipped Lease, within ten minutes", func() {
	It("run every profile, bind every pod, and report nothing else, whatever ends them", func(ctx SpecContext) {
		node := fixture.Node("of-outages").Capacity("cpu", "8", "memory", "8Gi", "pods", "20").Obj()
		Expect(admin.Create(ctx, node)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, node))).To(Succeed()) })
		served := []string{"outage-1", "outage-2", "outage-idle"}
		for i, name := range served {
			Expect(operator.ApplyProfile(ctx, cp, name, v1alpha1.SchedulingProfileSpec{PercentageOfNodesToScore: int32(20 + i)})).To(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(admin.Delete(ctx, &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
			})
		}
		both := replicas{keeps(ctx), keeps(ctx)}
		hashes := map[string]string{}
		for _, name := range served {
			p, err := operator.UntilProgrammed(ctx, cp, name)
			Expect(err).NotTo(HaveOccurred())
			hashes[name] = p.Status.Programmed.Hash
		}
		witness, err := operator.Watch(ctx, cp)
		Expect(err).NotTo(HaveOccurred())
		binds := func(phase string) {
			GinkgoHelper()
			for _, name := range served[:2] {
				runsAs(ctx, name, name+"-"+phase)
			}
			Expect(witness.Notes()).To(BeEmpty(), phase)
		}
		leads := func() *replica { return both.leader(ctx, witness) }

		for _, kill := range []string{"first-kill", "second-kill"} {
			By(kill)
			var leader *replica
			Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
			leader = leads()
			leader.signal(syscall.SIGKILL)
			Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
			binds(kill)
		}

		By("the API server hangs")
		api := cp.Process("kube-apiserver")
		Expect(api.Signal(syscall.SIGSTOP)).To(Succeed())
		both.waitOut(ctx, witness)
		Expect(api.Signal(syscall.SIGCONT)).To(Succeed())
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("hang")

		By("the API server ends")
		again := cp.StopAPIServer()
		both.waitOut(ctx, witness)
		Expect(again(ctx)).To(Succeed())
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("end")

		By("the leader's node is drained")
		leads().signal(syscall.SIGTERM)
		Eventually(leads).WithTimeout(time.Minute).ShouldNot(BeNil())
		binds("drain")

		for _, name := range served {
			p, err := operator.Profile(ctx, cp, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(p.Status.Programmed).To(HaveField("Hash", hashes[name]), name)
			r, err := cp.Client().AppsV1().ControllerRevisions(operator.Namespace).Get(ctx, p.Status.Programmed.Revision, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Annotations).NotTo(Or(HaveKey(v1alpha1.AnnotationCrashStack), HaveKey(v1alpha1.AnnotationBuildDeaths)), name)
		}
		for _, name := range served {
			Eventually(leads).Should(WithTransform(func(r *replica) string { return r.metrics(ctx) },
				ContainSubstring(`berth_profile_running{profile=%q} 1`, name)))
		}

		By("what the witness notes of a profile that does not run its pods")
		Expect(operator.ApplyProfile(ctx, cp, served[0], v1alpha1.SchedulingProfileSpec{PercentageOfNodesToScore: 20, State: v1alpha1.StatePaused})).To(Succeed())
		// A pod that comes before the profile is paused is bound.
		Eventually(operator.Profile).WithArguments(ctx, cp, served[0]).Should(HaveField("Status.Conditions",
			ContainElement(And(HaveField("Type", "Ready"), HaveField("Reason", string(v1alpha1.ReasonPaused))))))
		held := webPod("held", served[0])
		Expect(admin.Create(ctx, held)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, held, client.GracePeriodSeconds(0)))).To(Succeed())
		})
		Eventually(func() []string {
			leads()
			return witness.Notes()
		}).WithTimeout(2*time.Minute).Should(SatisfyAll(HaveEach(MatchRegexp("(?i)paused")), ContainElements(
			HavePrefix("profile outage-1: Ready=False"), HavePrefix("pod held: "), HavePrefix("berth_held_pods"), HavePrefix("berth_profile_condition"),
		)), "the watches of the witness are left alone for up to a minute after the outage, and deliver in order then")
	}, SpecTimeout(8*time.Minute))
})

// runsAs has a pod of that name and profile bound.
func runsAs(ctx context.Context, profile, name string) {
	GinkgoHelper()
	pod := webPod(name, profile)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	Eventually(conditionOf).WithArguments(ctx, pod).Should(HaveField("Status", v1.ConditionTrue))
}

func webPod(name, profile string) *v1.Pod {
	pod := fixture.Pod("default/" + name).SchedulerName(profile).Obj()
	pod.UID = ""
	pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web", Command: []string{"serve"}, Env: []v1.EnvVar{{Name: "PORT", Value: "80"}}}}
	return pod
}
