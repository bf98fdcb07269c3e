package coldstart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("Berth as a static pod", func() {
	It("waits for the API server, for its kinds, then for a node, and serves pods that name no scheduler", func(ctx SpecContext) {
		By("an account, a kube-scheduler that is gone, a node that is not ready, and a pod that waits")
		kubectl(ctx, "apply", "--server-side", "--kustomize="+filepath.Join(root, "config", "static-pod"))
		_, err := cp.Client().CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("gone"), LeaseDurationSeconds: new(int32(1))},
		}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		nodes, pods := cp.Client().CoreV1().Nodes(), cp.Client().CoreV1().Pods("default")
		_, err = nodes.Create(ctx, fixture.Node("n1").Obj(), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		pod := fixture.Pod("default/web").SchedulerName(v1.DefaultSchedulerName).Obj()
		pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web"}}
		_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())

		By("the manager, with the arguments of config/static-pod/berth.yaml, before the API server")
		down := apiServerToBe()
		probes, process := starts(ctx, down)
		unanswered := SatisfyAll(HavePrefix("500"), ContainSubstring("[-]api-server failed"))
		Eventually(operator.Answer).WithArguments(ctx, probes+"/readyz?verbose").Should(unanswered)
		Expect(operator.Answer(ctx, probes+"/livez")).To(Equal("200 ok"))
		Eventually(os.ReadFile).WithArguments(process.Log()).Should(ContainSubstring("Waiting for the API server"))
		toEnd, another := starts(ctx, down)
		Eventually(operator.Answer).WithArguments(ctx, toEnd+"/readyz?verbose").Should(unanswered)
		Expect(cp.Ask(ctx, another)).To(BeZero(), "the exit code of one that is told to end while it waits")

		By("the API server")
		down.comes()
		Eventually(operator.Answer).WithArguments(ctx, probes+"/readyz?verbose").Should(SatisfyAll(HavePrefix("500"), ContainSubstring("[-]crds failed")))

		By("the kinds")
		Expect(cp.InstallCRDs(ctx, filepath.Join(root, "config", "crd"))).To(Succeed())
		Eventually(operator.Answer).WithArguments(ctx, probes+"/readyz").Should(Equal("200 ok"))
		kubectl(ctx, "wait", "--for=create", "--timeout=20s", "sprof/default-scheduler")
		kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=40s", "sprof/default-scheduler")
		Eventually(scheduled).WithArguments(ctx).Should(Equal(
			"False Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))
		Expect(operator.Answer(ctx, probes+"/healthz")).To(Equal("200 ok"))

		By("the node is ready")
		kubectl(ctx, "taint", "node", "n1", v1.TaintNodeNotReady+"-")
		Eventually(scheduled).WithArguments(ctx).Should(Equal("True n1"))

		By("with the rights of config/static-pod, and none in kube-system but to read that Lease")
		_, err = cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		entries, err := asked.Entries()
		Expect(err).NotTo(HaveOccurred())
		var forbidden, elsewhere []string
		for i := range entries {
			if entries[i].Forbidden() {
				forbidden = append(forbidden, entries[i].String())
			}
			if entries[i].ObjectRef.Namespace == metav1.NamespaceSystem {
				elsewhere = append(elsewhere, entries[i].Need())
			}
		}
		Expect(forbidden).To(BeEmpty())
		Expect(slices.Compact(elsewhere)).To(Equal([]string{"get leases.coordination.k8s.io kube-system/kube-scheduler"}))
	}, SpecTimeout(3*time.Minute))
})

// starts starts the manager as the kubelet would, with an API server that is not there
// yet, and says where its probes are.
func starts(ctx context.Context, down apiServer) (probes string, process *controlplane.Process) {
	GinkgoHelper()
	pod := staticPod()
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	down.rename(kubeconfig)
	free, err := controlplane.FreeAddresses(2)
	Expect(err).NotTo(HaveOccurred())
	process, err = cp.Run(manager, with(pod.Spec.Containers[0].Args, map[string]string{
		"--kubeconfig": kubeconfig, "--health-probe-bind-address": free[0], "--metrics-bind-address": free[1],
	})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(process) })
	return "http://" + free[0], process
}

// apiServer is an address at which nobody listens before the API server comes.
type apiServer string

func apiServerToBe() apiServer {
	GinkgoHelper()
	free, err := controlplane.FreeAddresses(1)
	Expect(err).NotTo(HaveOccurred())
	return apiServer(free[0])
}

// rename has a kubeconfig name this address.
func (a apiServer) rename(kubeconfig string) {
	GinkgoHelper()
	text, err := os.ReadFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(kubeconfig, bytes.ReplaceAll(text, []byte(cp.Config().Host), []byte("https://"+string(a))), 0o600)).To(Succeed())
}

// comes passes what arrives at the address on to the API server.
func (a apiServer) comes() {
	GinkgoHelper()
	listener, err := net.Listen("tcp", string(a))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the spec is over
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(cp.Config().Host, "https://"))
			if err != nil {
				near.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					defer way[0].Close()
					_, _ = io.Copy(way[0], way[1])
				}()
			}
		}
	}()
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
