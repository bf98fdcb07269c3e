package devices

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A gang whose pods share a claim, and have one of their own from a template", func() {
	It("gets all devices or none, and the next gang gets them after it", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, env.template("any", requestOf(driver, "")))
		gang := func(name string) (pods []*v1.Pod) {
			env.create(ctx, env.claim(name+"-shared", requestOf(driver, "")))
			for i := range 3 {
				pod := env.pod(fmt.Sprint(name, "-", i), v1.PodResourceClaim{ResourceClaimTemplateName: new("any")})
				pod.Spec.SchedulerName = gangProfileName
				pod.Annotations = map[string]string{"berth.dev/pod-group": name, "berth.dev/pod-group-min-count": "3"}
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "shared", ResourceClaimName: new(name + "-shared")})
				pod.Spec.Containers[0].Resources.Claims = append(pod.Spec.Containers[0].Resources.Claims, v1.ResourceClaim{Name: "shared"})
				env.create(ctx, pod)
				pods = append(pods, pod)
			}
			return pods
		}

		By("four devices are enough for one gang")
		first := gang("a")
		for _, pod := range first {
			Eventually(admin.NodeName(ctx, pod)).Should(Equal("n0"), pod.Name)
		}
		Eventually(func(g Gomega) {
			shared, reserved := env.devicesOf(ctx, "a-shared")(g)
			g.Expect(reserved).To(ConsistOf("a-0", "a-1", "a-2"))
			given := shared
			for _, pod := range first {
				devices, _ := env.devicesOf(ctx, claimOf(ctx, pod))(g)
				given = append(given, devices...)
			}
			g.Expect(given).To(ConsistOf("n0/a-small", "n0/a-large", "n0/b-small", "n0/b-large"))
		}).Should(Succeed())

		By("the other waits, and holds none")
		second := gang("b")
		expectUnschedulable(ctx, "0/1 nodes are available: 1 cannot allocate all claims.", second[0])
		Expect(env.devicesOf(ctx, "b-shared")(Default)).To(BeEmpty())

		By("the first is deleted: its devices are given back")
		for _, pod := range first {
			Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
		for _, pod := range second {
			Eventually(admin.NodeName(ctx, pod)).Should(Equal("n0"), pod.Name)
		}
	})
})
