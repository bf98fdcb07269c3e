package devices

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
)

// largeOfModelA selects one of the four devices of each node.
const largeOfModelA = `device.attributes["gpu.example.com"].model == "a" && device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) >= 0`

var _ = Describe("Pods of one claim template", func() {
	It("get different devices that the selector matches, and wait when there are none left", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 6)
		env.create(ctx, env.template("large-a", requestOf(driver, largeOfModelA)))
		var pods []*v1.Pod
		for i := range 8 {
			pod := env.pod(fmt.Sprint("p", i), v1.PodResourceClaim{ResourceClaimTemplateName: new("large-a")})
			env.create(ctx, pod)
			pods = append(pods, pod)
		}

		By("six are bound, each with another device")
		bound, waiting := func() (bound, waiting []*v1.Pod) {
			Eventually(func(g Gomega) {
				bound, waiting = nil, nil
				for _, pod := range pods {
					if admin.NodeName(ctx, pod)(g) != "" {
						bound = append(bound, pod)
					} else {
						waiting = append(waiting, pod)
					}
				}
				g.Expect(bound).To(HaveLen(6))
			}).Should(Succeed())
			return bound, waiting
		}()
		given := sets.New[string]()
		for _, pod := range bound {
			devices, reserved := env.devicesOf(ctx, claimOf(ctx, pod))(Default)
			Expect(devices).To(ConsistOf(pod.Spec.NodeName+"/a-large"), pod.Name)
			Expect(reserved).To(ConsistOf(pod.Name))
			given.Insert(devices...)
		}
		Expect(given).To(HaveLen(6))

		By("two wait, and their conditions say why")
		expectUnschedulable(ctx, "0/6 nodes are available: 6 cannot allocate all claims.", waiting...)

		By("their explanations count the devices of the request")
		Eventually(func(g Gomega) v1alpha1.SchedulingDecisionStatus {
			var why v1alpha1.SchedulingDecision
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(waiting[0]), &why)).To(Succeed())
			return why.Status
		}).Should(And(
			HaveField("DeviceRequests", ConsistOf(v1alpha1.DeviceRequestCounts{
				Claim: waiting[0].Spec.ResourceClaims[0].Name, Request: "gpu", DeviceClassName: driver, Count: 1, Published: 24,
				Selectors: []v1alpha1.DeviceSelectorCount{
					{Source: v1alpha1.DeviceSelectorOfClass, Expression: `device.driver == "gpu.example.com"`, Matching: 24},
					{Source: v1alpha1.DeviceSelectorOfRequest, Expression: largeOfModelA, Matching: 6},
				},
			})),
			HaveField("ClosestNodes", HaveEach(HaveField("Missing", ConsistOf(v1alpha1.Missing{
				DeviceRequest: waiting[0].Spec.ResourceClaims[0].Name + "/gpu", Requested: "1", Free: "0",
			})))),
		))

		By("one is deleted: its device is given back")
		gone := bound[0]
		Expect(admin.Delete(ctx, gone, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func(g Gomega) (nodes []string) {
			for _, pod := range waiting {
				if node := admin.NodeName(ctx, pod)(g); node != "" {
					nodes = append(nodes, node)
				}
			}
			return nodes
		}).Should(ConsistOf(gone.Spec.NodeName), "the node whose device is free again")
	})
})

var _ = Describe("A claim that pods share", func() {
	It("keeps them on the node of its device, and is deallocated after the last one", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 3)
		env.create(ctx, env.claim("shared", requestOf(driver, largeOfModelA)))
		Expect(env.devicesOf(ctx, "shared")(Default)).To(BeEmpty())
		first := env.pod("first", v1.PodResourceClaim{ResourceClaimName: new("shared")})
		env.create(ctx, first)
		admin.ExpectBound(ctx, first)
		second := env.pod("second", v1.PodResourceClaim{ResourceClaimName: new("shared")})
		env.create(ctx, second)
		admin.ExpectBound(ctx, second)
		Expect(second.Spec.NodeName).To(Equal(first.Spec.NodeName))
		devices, reserved := env.devicesOf(ctx, "shared")(Default)
		Expect(devices).To(ConsistOf(first.Spec.NodeName + "/a-large"))
		Expect(reserved).To(ConsistOf("first", "second"))

		By("the pods are deleted one after the other")
		Expect(admin.Delete(ctx, first, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func(g Gomega) []string { _, reserved := env.devicesOf(ctx, "shared")(g); return reserved }).Should(ConsistOf("second"))
		Expect(admin.Delete(ctx, second, client.GracePeriodSeconds(0))).To(Succeed())
		Eventually(func(g Gomega) []string { devices, _ := env.devicesOf(ctx, "shared")(g); return devices }).Should(BeEmpty())

		By("a pod of the same name is created again")
		again := env.pod("first", v1.PodResourceClaim{ResourceClaimName: new("shared")})
		env.create(ctx, again)
		admin.ExpectBound(ctx, again)
	})
})

var _ = Describe("A pod whose claim is allocated for a node that it cannot use", func() {
	It("waits until the claim is deallocated", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		env.create(ctx, env.claim("shared", requestOf(driver, "")))
		shared := func(name string, node int) *v1.Pod {
			pod := env.pod(name, v1.PodResourceClaim{ResourceClaimName: new("shared")})
			pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: fmt.Sprint("n", node)}
			env.create(ctx, pod)
			return pod
		}
		first := shared("first", 0)
		admin.ExpectBound(ctx, first)
		second := shared("second", 1)
		expectUnschedulable(ctx, "1 resourceclaim not available on the node", second)
		admin.ExpectBound(ctx, env.plainPod(ctx, "other"))
		Expect(admin.Delete(ctx, first, client.GracePeriodSeconds(0))).To(Succeed())
		admin.ExpectBound(ctx, second)
		Expect(second.Spec.NodeName).To(Equal("n1"))
	})
})

var _ = Describe("A pod whose claim cannot be allocated", func() {
	It("waits until the claim is created", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		pod := env.pod("early", v1.PodResourceClaim{ResourceClaimName: new("late")})
		env.create(ctx, pod)
		Eventually(func(g Gomega) string {
			var why v1alpha1.SchedulingDecision
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), &why)).To(Succeed())
			return why.Status.Message
		}).Should(Equal("plugin DynamicResources keeps the pod from being tried"))
		env.create(ctx, env.claim("late", requestOf(driver, "")))
		admin.ExpectBound(ctx, pod)
	})

	It("waits until its class is created, and says which one is missing", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, env.claim("c", requestOf("missing.example.com", "")))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "request gpu: device class missing.example.com does not exist", pod)
		env.create(ctx, deviceClass("missing.example.com", `device.driver == "gpu.example.com"`))
		admin.ExpectBound(ctx, pod)
	})

	It("waits until devices are published", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, env.claim("c", requestOf(driver, `device.attributes["gpu.example.com"].model == "c"`)))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		slice, node, model := fourDevices("n0"), "n0", "c"
		slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Name = "more", &node, "more"
		for i := range slice.Spec.Devices {
			slice.Spec.Devices[i].Attributes["model"] = resourceapi.DeviceAttribute{StringValue: &model}
		}
		env.create(ctx, slice)
		admin.ExpectBound(ctx, pod)
	})

	DescribeTable("leaves others alone when its selector", func(ctx SpecContext, expression, text string) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, env.claim("broken", requestOf(driver, expression)), env.claim("sound", requestOf(driver, "")))
		broken := env.pod("broken", v1.PodResourceClaim{ResourceClaimName: new("broken")})
		env.create(ctx, broken)
		expectFailed(ctx, broken, v1.PodReasonSchedulerError, text)
		sound := env.pod("sound", v1.PodResourceClaim{ResourceClaimName: new("sound")})
		env.create(ctx, sound)
		admin.ExpectBound(ctx, sound)
	},
		Entry("fails on a device", specTimeout, `device.attributes["gpu.example.com"].missing == "a"`, "no such key: missing"),
		Entry("compares a string with a number", specTimeout, `device.attributes["gpu.example.com"].model > 3`, "no such overload"),
	)
})
