package coldstart

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/controlplane"
	"github.com/berthdev/berth/test/fixture"
	"github.com/berthdev/berth/test/operator"
)

var _ = Describe("Berth as a static pod", func() {
	It("waits for its kinds, then for a node, and serves pods that name no scheduler", func(ctx SpecContext) {
		By("an account, a node that is not ready, and a pod that waits")
		kubectl(ctx, "apply", "--server-side", "--kustomize="+filepath.Join(root, "config", "static-pod"))
		nodes, pods := cp.Client().CoreV1().Nodes(), cp.Client().CoreV1().Pods("default")
		_, err := nodes.Create(ctx, fixture.Node("n1").Obj(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := fixture.Pod("default/web").Scheduler(v1.DefaultSchedulerName).Obj()
		pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web"}}
		_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("the manager, with the arguments of config/static-pod/berth.yaml")
		probes := starts(ctx)
		Eventually(operator.Answer).WithArguments(ctx, probes+"/healthz").Should(Equal("200 ok"))
		Eventually(operator.Answer).WithArguments(ctx, probes+"/readyz?verbose").Should(SatisfyAll(HavePrefix("500"), ContainSubstring("[-]crds failed")))

		By("the kinds")
		Expect(cp.InstallCRDs(ctx, filepath.Join(root, "config", "crd"))).To(Succeed())
		Eventually(operator.Answer).WithArguments(ctx, probes+"/readyz").Should(Equal("200 ok"))
		kubectl(ctx, "wait", "--for=create", "--timeout=20s", "sprof/default-scheduler")
		kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=20s", "sprof/default-scheduler")
		Eventually(scheduled).WithArguments(ctx).Should(Equal(
			"False Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))
		Expect(operator.Answer(ctx, probes+"/healthz")).To(Equal("200 ok"))

		By("the node is ready")
		kubectl(ctx, "taint", "node", "n1", v1.TaintNodeNotReady+"-")
		Eventually(scheduled).WithArguments(ctx).Should(Equal("True n1"))
	}, SpecTimeout(2*time.Minute))
})

// starts starts the manager as the kubelet would, and says where its probes are.
func starts(ctx context.Context) string {
	GinkgoHelper()
	pod := staticPod()
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, pod.Namespace, "berth-manager")
	Expect(err).NotTo(HaveOccurred())
	free, err := controlplane.FreeAddresses(2)
	Expect(err).NotTo(HaveOccurred())
	process, err := cp.Run(manager, with(pod.Spec.Containers[0].Args, map[string]string{
		"--kubeconfig": kubeconfig, "--health-probe-bind-address": free[0], "--metrics-bind-address": free[1],
	})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(process) })
	return "http://" + free[0]
}

// scheduled is what the pod's status says about where it is.
func scheduled(ctx context.Context) (string, error) {
	pod, err := cp.Client().CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue {
			return "True " + pod.Spec.NodeName, nil
		}
		if c.Type == v1.PodScheduled {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message), nil
		}
	}
	return "no condition", nil
}

func kubectl(ctx context.Context, args ...string) {
	GinkgoHelper()
	_, err := cp.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
}
