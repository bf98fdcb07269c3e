package devices

import (
	"context"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/faultproxy"
	"github.com/berthdev/berth/test/support/load"
)

var _ = Describe("A driver that publishes what is wrong", func() {
	It("two devices of one name in a pool: the pod says so, and is bound when one is gone", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.setSliceCount(ctx, "n0", 2)
		again := fourDevices("n0")
		again.Name, again.Spec.Pool.ResourceSliceCount, again.Spec.Devices = "again", 2, again.Spec.Devices[:1]
		env.create(ctx, again, env.claim("c", requestOf(driver, "")))
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "invalid resource pools were encountered", pod)

		By("a node with a sound pool takes pods")
		env.addNode(ctx, "n1")
		admin.ExpectBound(ctx, pod)
		Expect(pod.Spec.NodeName).To(Equal("n1"))

		By("the slice that repeats a device is deleted")
		Expect(admin.Delete(ctx, again)).To(Succeed())
		env.setSliceCount(ctx, "n0", 1)
		env.holdAll(ctx, "n1", "a-large", "b-small", "b-large")
		next := env.claimingPod(ctx, "next")
		admin.ExpectBound(ctx, next)
		Expect(next.Spec.NodeName).To(Equal("n0"))
	})

	It("a pool without all its slices: its devices count when the last slice comes", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.setSliceCount(ctx, "n0", 2)
		pod := env.claimingPod(ctx, "p")
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		admin.ExpectBound(ctx, env.plainPod(ctx, "other"))
		rest := fourDevices("n0")
		rest.Name, rest.Spec.Pool.ResourceSliceCount, rest.Spec.Devices = "rest", 2, nil
		for i := range 2 {
			rest.Spec.Devices = append(rest.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("more-", i)})
		}
		env.create(ctx, rest)
		admin.ExpectBound(ctx, pod)
	})

	It("10,000 slices: pods with claims and without are bound meanwhile and afterwards", specTimeout, func(ctx SpecContext) {
		const slices, meanwhile = 10_000, 10
		env := newTestEnv(ctx, 2)
		published := make(chan error, 1)
		go func() {
			published <- load.Each(ctx, slices, 32, func(ctx context.Context, i int) error {
				wild := fourDevices("n0")
				name := fmt.Sprint("wild-", i)
				wild.Name, wild.Spec.Driver, wild.Spec.NodeName, wild.Spec.AllNodes = name, "wild.example.com", nil, new(true)
				wild.Spec.Pool.Name, wild.Spec.Devices = name, wild.Spec.Devices[:1]
				return admin.Create(ctx, wild)
			})
		}()
		for i := range meanwhile {
			if i%2 == 0 {
				admin.ExpectBound(ctx, env.plainPod(ctx, fmt.Sprint("plain-", i)))
				continue
			}
			pod := env.claimingPod(ctx, fmt.Sprint("claiming-", i))
			admin.ExpectBound(ctx, pod)
			Expect(admin.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
		Eventually(published).WithTimeout(2*eventuallyTimeout).Should(Receive(BeNil()), "the slices are published")
		admin.ExpectBound(ctx, env.claimingPod(ctx, "afterwards"))
		admin.ExpectBound(ctx, env.plainPod(ctx, "afterwards-without"))
	})
})

var _ = Describe("A claim that is deleted in flight", func() {
	It("while its pod waits for a device: the pod waits for the claim, and is bound with the next one of that name", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		claim := env.claim("c", requestOf(driver, `device.attributes["gpu.example.com"].model == "c"`))
		env.create(ctx, claim)
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectUnschedulable(ctx, "1 cannot allocate all claims", pod)
		Expect(admin.Delete(ctx, claim)).To(Succeed())
		admin.ExpectBound(ctx, env.claimingPod(ctx, "other"))
		env.create(ctx, env.claim("c", requestOf(driver, "")))
		admin.ExpectBound(ctx, pod)
	})

	It("while its pod is being bound: the pod says so, and others get the device", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1)
		env.holdAll(ctx, "n0", "a-large", "b-small", "b-large")
		claim := env.claim("c", requestOf(driver, ""))
		env.create(ctx, claim)
		deleted := &atomic.Bool{}
		proxy.SetWriteFaults(func(w faultproxy.Write) *faultproxy.Fault {
			defer GinkgoRecover()
			if addFinalizer.Is(w, env.namespace) && deleted.CompareAndSwap(false, true) {
				Expect(admin.Delete(ctx, claim)).To(Succeed())
			}
			return nil
		})
		DeferCleanup(func() { proxy.SetWriteFaults(nil) })
		pod := env.pod("p", v1.PodResourceClaim{ResourceClaimName: new("c")})
		env.create(ctx, pod)
		expectFailed(ctx, pod, v1.PodReasonSchedulerError, "add finalizer to claim "+env.namespace+"/c")
		Expect(deleted.Load()).To(BeTrue())
		admin.ExpectBound(ctx, env.claimingPod(ctx, "other"))
	})
})

// setSliceCount says in a node's slice how many slices its pool has.
func (env testEnv) setSliceCount(ctx context.Context, node string, count int64) {
	GinkgoHelper()
	slice := &resourceapi.ResourceSlice{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: fourDevices(node).Name}, slice)).To(Succeed())
	slice.Spec.Pool.ResourceSliceCount = count
	Expect(admin.Update(ctx, slice)).To(Succeed())
}
