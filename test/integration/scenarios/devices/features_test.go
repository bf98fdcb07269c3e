package devices

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/fixture"
)

// What Kubernetes' own e2e specs of DRA say about scheduling, on one node or two.
var _ = Describe("A pod with a claim, as in Kubernetes' e2e specs", func() {
	It("goes through the phases of a claim, and gives the device back when it is done", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.create(ctx, env.template("t", requestOf(driver, largeOfModelA)))
		pod := env.pod("first", v1.PodResourceClaim{ResourceClaimTemplateName: new("t")})
		env.create(ctx, pod)
		admin.ExpectBound(ctx, pod)
		claim := claimOf(ctx, pod)
		devices, reserved := env.devicesOf(ctx, claim)(Default)
		Expect(devices).To(ConsistOf("n0/a-large"))
		Expect(reserved).To(ConsistOf("first"))
		waiting := env.pod("second", v1.PodResourceClaim{ResourceClaimTemplateName: new("t")})
		env.create(ctx, waiting)
		expectUnschedulable(ctx, "1 cannot allocate all claims", waiting)

		By("the pod is done: its claim is deleted, and the next pod gets the device")
		pod.Status.Phase = v1.PodSucceeded
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		admin.ExpectBound(ctx, waiting)
		Eventually(func() error {
			return admin.Get(ctx, client.ObjectKey{Namespace: env.namespace, Name: claim}, &resourceapi.ResourceClaim{})
		}).Should(Satisfy(apierrors.IsNotFound))

		By("a pod of the same name is created again after the first")
		Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		Expect(admin.Delete(ctx, waiting, client.GracePeriodSeconds(0))).To(Succeed())
		again := env.pod("first", v1.PodResourceClaim{ResourceClaimTemplateName: new("t")})
		env.create(ctx, again)
		admin.ExpectBound(ctx, again)
		Expect(claimOf(ctx, again)).NotTo(Equal(claim))
	})

	It("is bound when its class is changed so that it selects devices", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		class := deviceClass("picky", `device.driver == "none.example.com"`)
		env.create(ctx, class, env.claim("c", requestOf("picky", "")))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		class.Spec.Selectors[0].CEL.Expression = `device.driver == "gpu.example.com"`
		Expect(admin.Update(ctx, class)).To(Succeed())
		admin.ExpectBound(ctx, pod)
	})

	It("with an allocated claim and a new one goes to the node of the first, or waits for its devices", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2)
		env.hold(ctx, "held", "n1", "a-large")
		env.holdAll(ctx, "n1", "a-small", "b-large")
		release := env.hold(ctx, "filler", "n1", "b-small")
		env.create(ctx, env.claim("new", requestOf(driver, "")))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("held")})
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: "more", ResourceClaimName: new("new")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "cannot allocate all claims", pod)
		release()
		admin.ExpectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal("n1"))
		devices, _ := env.devicesOf(ctx, "new")(Default)
		Expect(devices).To(ConsistOf("n1/b-small"))
	})

	It("gets the first alternative that can be satisfied", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		spec := requestOf(driver, "")
		one := func(name string, count int64, expression string) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{
				Name: name, DeviceClassName: driver, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
			}
		}
		spec.Devices.Requests[0].Exactly, spec.Devices.Requests[0].FirstAvailable = nil, []resourceapi.DeviceSubRequest{
			one("five", 5, `device.driver == "gpu.example.com"`), one("two-b", 2, `device.attributes["gpu.example.com"].model == "b"`), one("any", 1, `true`),
		}
		env.create(ctx, env.claim("c", spec))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		admin.ExpectBound(ctx, pod)
		devices, _ := env.devicesOf(ctx, "c")(Default)
		Expect(devices).To(ConsistOf("n0/b-small", "n0/b-large"))
	})

	It("gets all devices of a model, and waits while one is held", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		release := env.hold(ctx, "held", "n0", "a-small")
		spec := requestOf(driver, `device.attributes["gpu.example.com"].model == "a"`)
		spec.Devices.Requests[0].Exactly.AllocationMode, spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
		env.create(ctx, env.claim("c", spec))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		release()
		admin.ExpectBound(ctx, pod)
		devices, _ := env.devicesOf(ctx, "c")(Default)
		Expect(devices).To(ConsistOf("n0/a-small", "n0/a-large"))
	})

	It("with admin access shares a held device, in a namespace for administrators", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}
		label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+resourceapi.DRAAdminNamespaceLabelKey+`":"true"}}}`))
		Expect(admin.Patch(ctx, namespace, label)).To(Succeed())
		env.holdAll(ctx, "n0", "a-small", "a-large", "b-small", "b-large")
		spec := requestOf(driver, largeOfModelA)
		spec.Devices.Requests[0].Exactly.AdminAccess = new(true)
		env.create(ctx, env.claim("monitor", spec))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("monitor")})
		env.create(ctx, pod)
		admin.ExpectBound(ctx, pod)
		devices, _ := env.devicesOf(ctx, "monitor")(Default)
		Expect(devices).To(ConsistOf("n0/a-large"))
	})

	It("avoids devices that a DeviceTaintRule taints, unless it tolerates that", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "maintenance"}, Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(driver)},
			Taint:          resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: resourceapi.DeviceTaintEffectNoSchedule},
		}}
		env.create(ctx, rule)
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, rule))).To(Succeed()) })
		tolerant := requestOf(driver, "")
		tolerant.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/maintenance", Operator: resourceapi.DeviceTolerationOpExists}}
		env.create(ctx, env.claim("intolerant", requestOf(driver, "")), env.claim("tolerant", tolerant))
		env.waitForTaint(ctx)
		pod := env.pod("intolerant", v1.PodResourceClaim{ResourceClaimName: new("intolerant")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		tolerating := env.pod("tolerant", v1.PodResourceClaim{ResourceClaimName: new("tolerant")})
		env.create(ctx, tolerating)
		admin.ExpectBound(ctx, tolerating)
		Expect(admin.Delete(ctx, rule)).To(Succeed())
		admin.ExpectBound(ctx, pod)
	})
})

// waitForTaint waits until pods are refused since all devices, as Berth knows then, are tainted.
// Earlier pods got a device, which they give back.
func (env testEnv) waitForTaint(ctx context.Context) {
	GinkgoHelper()
	for n := 0; ; n++ {
		name := fmt.Sprint("taint-known-", n)
		env.create(ctx, env.claim(name, requestOf(driver, "")))
		pod := env.pod(name, v1.PodResourceClaim{ResourceClaimName: &name})
		env.create(ctx, pod)
		Eventually(func(g Gomega) {
			g.Expect(admin.PodScheduled(ctx, pod)(g)).To(Or(HavePrefix("True"), ContainSubstring("1 cannot allocate all claims")))
		}).Should(Succeed())
		admin.Remove(ctx, pod)
		if pod.Spec.NodeName == "" {
			return
		}
		Eventually(env.devicesOf(ctx, name)).Should(BeEmpty())
	}
}

var _ = Describe("Devices that several claims share", func() {
	It("are shared until their capacity is consumed", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 0)
		shared := fourDevices("n0")
		shared.Spec.Devices = shared.Spec.Devices[1:2] // 80Gi
		shared.Spec.Devices[0].AllowMultipleAllocations = new(true)
		env.create(ctx, fixture.Node("n0").Capacity("pods", "100").Obj(), shared)
		share := requestOf(driver, "")
		share.Devices.Requests[0].Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("40Gi")}}
		pods := env.claimants(ctx, share, "first", "second", "third")
		admin.ExpectBound(ctx, pods[0])
		admin.ExpectBound(ctx, pods[1])
		expectUnschedulable(ctx, "1 cannot allocate all claims", pods[2])
		Expect(admin.Delete(ctx, pods[0], client.GracePeriodSeconds(0))).To(Succeed())
		admin.ExpectBound(ctx, pods[2])
	})

	It("are partitions: a large one and small ones exclude each other by counters", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 0)
		env.create(ctx, fixture.Node("n0").Capacity("pods", "100").Obj())
		counters, partitions := fourDevices("n0"), fourDevices("n0")
		memory := func(amount string) map[string]resourceapi.Counter {
			return map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(amount)}}
		}
		counters.Name, counters.Spec.Pool.ResourceSliceCount, counters.Spec.Devices = "counters", 2, nil
		counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: memory("80Gi")}}
		partitions.Spec.Pool.ResourceSliceCount, partitions.Spec.Devices = 2, partitions.Spec.Devices[:2]
		for i, amount := range []string{"40Gi", "80Gi"} {
			partitions.Spec.Devices[i].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: memory(amount)}}
		}
		env.create(ctx, counters, partitions)
		small := env.claimants(ctx, requestOf(driver, `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0`), "small")[0]
		admin.ExpectBound(ctx, small)
		large := env.claimants(ctx, requestOf(driver, largeOfModelA), "large")[0]
		expectUnschedulable(ctx, "1 cannot allocate all claims", large)
		Expect(admin.Delete(ctx, small, client.GracePeriodSeconds(0))).To(Succeed())
		admin.ExpectBound(ctx, large)
	})

	It("are not overcommitted by extended resources", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		class := deviceClass("cards", `device.driver == "gpu.example.com"`)
		class.Spec.ExtendedResourceName = new(card)
		env.create(ctx, class)
		want := func(name, count string) *v1.Pod {
			pod := fixture.Pod(env.namespace + "/" + name).SchedulerName(profileName).Valid()
			amount := fixture.Resources(card, count)
			pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits = amount, amount
			env.create(ctx, pod)
			return pod
		}
		three, two := want("three", "3"), want("two", "2")
		bound, waiting := three, two
		Eventually(func(g Gomega) {
			if admin.NodeName(ctx, two)(g) != "" {
				bound, waiting = two, three
			}
			g.Expect(admin.NodeName(ctx, bound)(g)).NotTo(BeEmpty())
		}).Should(Succeed())
		expectUnschedulable(ctx, "1 cannot allocate all claims", waiting)
		Expect(admin.Delete(ctx, bound, client.GracePeriodSeconds(0))).To(Succeed())
		admin.ExpectBound(ctx, waiting)
	})
})

// claimants creates pods of these names, each with a claim of its own, one after the other:
// each is bound before the next is created, and it returns without waiting for the last.
func (env testEnv) claimants(ctx context.Context, spec resourceapi.ResourceClaimSpec, names ...string) (pods []*v1.Pod) {
	GinkgoHelper()
	for i, name := range names {
		if i > 0 {
			admin.ExpectBound(ctx, pods[i-1])
		}
		pod := env.pod(name, v1.PodResourceClaim{ResourceClaimTemplateName: new(name)})
		env.create(ctx, env.template(name, spec), pod)
		pods = append(pods, pod)
	}
	return pods
}

// claimingPod creates a pod that wants any device.
func (env testEnv) claimingPod(ctx context.Context, name string) *v1.Pod {
	GinkgoHelper()
	return env.claimants(ctx, requestOf(driver, ""), name)[0]
}

// plainPod creates a pod without a claim.
func (env testEnv) plainPod(ctx context.Context, name string) *v1.Pod {
	GinkgoHelper()
	pod := fixture.Pod(env.namespace + "/" + name).SchedulerName(profileName).Valid()
	env.create(ctx, pod)
	return pod
}

// addNode creates a node with four devices.
func (env testEnv) addNode(ctx context.Context, name string) {
	GinkgoHelper()
	env.create(ctx, fixture.Node(name).Capacity("pods", "100").Obj(), fourDevices(name))
}

// hold creates a pod on a node whose claim, of the same name, has that device of it. The
// pod gets it from Berth, which knows the allocation then.
func (env testEnv) hold(ctx context.Context, name, node, device string) (release func()) {
	GinkgoHelper()
	expression, found := expressionOf[device]
	Expect(found).To(BeTrue(), device)
	env.create(ctx, env.claim(name, requestOf(driver, expression)))
	pod := env.pod(name, v1.PodResourceClaim{ResourceClaimName: new(name)})
	pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: node}
	env.create(ctx, pod)
	admin.ExpectBound(ctx, pod)
	return func() {
		GinkgoHelper()
		Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	}
}

// holdAll is hold for several devices of a node.
func (env testEnv) holdAll(ctx context.Context, node string, devices ...string) {
	GinkgoHelper()
	for _, device := range devices {
		env.hold(ctx, "holds-"+device, node, device)
	}
}

// expressionOf selects each of the four devices of a node.
var expressionOf = map[string]string{
	"a-small": selectorOf("a", "== 0"), "a-large": selectorOf("a", "> 0"), "b-small": selectorOf("b", "== 0"), "b-large": selectorOf("b", "> 0"),
}

func selectorOf(model, than40Gi string) string {
	return fmt.Sprintf(`device.attributes["gpu.example.com"].model == %q && device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) %s`, model, than40Gi)
}
