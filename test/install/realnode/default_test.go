package realnode

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("config/default", Ordered, Label("default"), func() {
	startCluster("default", node.Options{KubeScheduler: true, FakeNodes: 3})
	installConfig("config/default", 2)

	It("runs without root, capabilities or a writable root file system", specTimeout, func(ctx SpecContext) {
		pod := leader(ctx, Default, operator.Namespace)
		expectConfined(process(pod))
		Expect(pod.Spec.Containers[0].Image).To(Equal(imagesOnNode().Manager))
		Expect(pod.Status.ContainerStatuses[0].RestartCount).To(BeZero())
	})

	It("runs pods to completion", specTimeout, func(ctx SpecContext) {
		for _, c := range []struct {
			name string
			args []string
			want corev1.PodPhase
		}{
			{"succeeds", []string{"exit", "0"}, corev1.PodSucceeded},
			{"fails", []string{"exit", "3"}, corev1.PodFailed},
			{"has-its-environment", []string{"require", "GREETING=hello", "POD=has-its-environment"}, corev1.PodSucceeded},
		} {
			pod := webPod(metav1.NamespaceDefault, c.name)
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			container := &pod.Spec.Containers[0]
			withoutProbes(container, c.args...)
			create(ctx, pod)
			Eventually(phase).WithArguments(ctx, pod).Should(Equal(c.want), c.name)
			Expect(pod.Spec.NodeName).To(Equal(node.Name))
			Expect(pod.Annotations).To(HaveKeyWithValue("berth.dev/decision", ContainSubstring(`"node":"`+node.Name+`"`)))
		}
	})

	It("leaves probes to the kubelet: one succeeds, one never does", specTimeout, func(ctx SpecContext) {
		passes, neverReady, neverAlive := webPod(metav1.NamespaceDefault, "passes"), webPod(metav1.NamespaceDefault, "never-ready"), webPod(metav1.NamespaceDefault, "never-alive")
		neverReady.Spec.Containers[0].ReadinessProbe.HTTPGet.Path = "/never"
		neverAlive.Spec.Containers[0].LivenessProbe.HTTPGet.Path = "/never"
		for _, pod := range []*corev1.Pod{passes, neverReady, neverAlive} {
			create(ctx, pod)
		}
		Eventually(ready).WithArguments(ctx, passes).Should(BeTrue())
		Eventually(func() ([]string, error) { return messages(ctx, neverReady.Namespace, neverReady.Name), nil }).Should(ContainElement(ContainSubstring("Readiness probe failed")))
		Expect(ready(ctx, neverReady)).To(BeFalse())
		Eventually(func(g Gomega) int32 {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(neverAlive), neverAlive)).To(Succeed())
			g.Expect(neverAlive.Status.ContainerStatuses).To(HaveLen(1))
			return neverAlive.Status.ContainerStatuses[0].RestartCount
		}).Should(BeNumerically(">", 0))
		Expect(neverAlive.Spec.NodeName).To(Equal(node.Name), "a restart of a container moves no pod")
	})

	specControllers()
	specDevices()
	specSharedNode()
	specLeaderEnds()
	specOutages()
})

// create creates a pod until the spec ends.
func create(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { admin.Remove(ctx, pod) })
}

// ready reads a pod and returns its condition Ready.
func ready(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return false, err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, nil
		}
	}
	return false, nil
}

// expectConfined checks the security context of the manager's process.
func expectConfined(pid int) {
	GinkgoHelper()
	status, err := node.Status(pid)
	Expect(err).NotTo(HaveOccurred())
	Expect(status).To(SatisfyAll(
		HaveKeyWithValue("Uid", "65532 65532 65532 65532"),
		HaveKeyWithValue("Gid", "65532 65532 65532 65532"),
		HaveKeyWithValue("CapEff", strings.Repeat("0", 16)),
		HaveKeyWithValue("CapBnd", strings.Repeat("0", 16)),
		HaveKeyWithValue("NoNewPrivs", "1"),
		HaveKeyWithValue("Seccomp", "2"),
	))
	options, err := node.RootOptions(pid)
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Split(options, ",")).To(ContainElement("ro"))
}
