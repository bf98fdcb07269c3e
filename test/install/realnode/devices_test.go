package realnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
)

// gpuDriver is the name of a driver, its class, and the template of claims of one device.
const gpuDriver = "gpu.example.com"

// specDevices specifies pods with ResourceClaims: the kubelet starts them only when Berth
// has written the allocation and the reservation into the claim.
func specDevices() {
	It("runs a pod with a claim, with its device, and another one when the device is free again", specTimeout, func(ctx SpecContext) {
		plugin, err := cluster.StartDeviceDriver(ctx, *driver, gpuDriver, 1)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cluster.End(plugin) })
		createOwner(ctx, &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: gpuDriver},
			Spec:       resourceapi.DeviceClassSpec{Selectors: selectDevices(fmt.Sprintf("device.driver == %q", gpuDriver))},
		})
		createOwner(ctx, &resourceapi.ResourceClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: gpuDriver},
			Spec: resourceapi.ResourceClaimTemplateSpec{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
				Requests: []resourceapi.DeviceRequest{{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: gpuDriver,
					Selectors:       selectDevices(fmt.Sprintf("device.attributes[%q].model == %q", gpuDriver, "a")),
				}}},
			}}},
		})

		By("the first pod runs, and its container has the device")
		first := podWithDevice("first-device")
		create(ctx, first)
		Eventually(phase).WithArguments(ctx, first).Should(Equal(corev1.PodRunning))
		expectDevice(ctx, first)

		By("the second pod waits, and its condition says why")
		second := podWithDevice("second-device")
		create(ctx, second)
		Eventually(func(g Gomega) []corev1.PodCondition {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(second), second)).To(Succeed())
			return second.Status.Conditions
		}).Should(ContainElement(SatisfyAll(
			HaveField("Type", corev1.PodScheduled), HaveField("Reason", corev1.PodReasonUnschedulable),
			HaveField("Message", ContainSubstring("1 cannot allocate all claims")),
		)))

		By("the first pod is deleted: the second one gets its device")
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(phase).WithArguments(ctx, second).Should(Equal(corev1.PodRunning))
		expectDevice(ctx, second)

		By("the second pod is deleted: the driver has no claim any more")
		Expect(admin.Delete(ctx, second)).To(Succeed())
		Eventually(cluster.Specifications).Should(BeEmpty())
	})
}

func selectDevices(expression string) []resourceapi.DeviceSelector {
	return []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// podWithDevice returns a pod with one device, which prints the environment that the driver
// sets for it.
func podWithDevice(name string) *corev1.Pod {
	pod := webPod(metav1.NamespaceDefault, name)
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new(gpuDriver)}}
	container := &pod.Spec.Containers[0]
	withoutProbes(container, "print", "GPU_DEVICE_0")
	container.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// expectDevice expects that the claim of a running pod has the only device and is reserved
// for the pod, and that the container printed the device.
func expectDevice(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(pod.Spec.NodeName).To(Equal(node.Name))
	Expect(pod.Annotations).To(HaveKey("berth.dev/decision"))
	Expect(pod.Status.ResourceClaimStatuses).To(ConsistOf(HaveField("ResourceClaimName", Not(BeNil()))))
	var claim resourceapi.ResourceClaim
	key := types.NamespacedName{Namespace: pod.Namespace, Name: *pod.Status.ResourceClaimStatuses[0].ResourceClaimName}
	Expect(admin.Get(ctx, key, &claim)).To(Succeed())
	Expect(claim.Status.ReservedFor).To(ConsistOf(HaveField("UID", pod.UID)))
	Expect(claim.Status.Allocation).NotTo(BeNil())
	Expect(claim.Status.Allocation.Devices.Results).To(ConsistOf(SatisfyAll(
		HaveField("Request", "gpu"), HaveField("Driver", gpuDriver), HaveField("Pool", node.Name), HaveField("Device", "gpu-0"),
	)))
	folder := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	Eventually(func() (string, error) {
		text, err := os.ReadFile(filepath.Join(cluster.PodLogs(), folder, "web", "0.log"))
		return string(text), err
	}).Should(ContainSubstring("GPU_DEVICE_0=gpu-0"))
}
