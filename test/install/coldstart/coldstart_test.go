// Package coldstart starts Berth as the only scheduler of an empty cluster: without its
// CRDs, and without a node that takes pods.
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
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/test/support/audit"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("Berth as a static pod", func() {
	It("waits for the API server, the CRDs and a node, and schedules pods without schedulerName", func(ctx SpecContext) {
		By("an account, the Lease of an earlier kube-scheduler, a node that is not ready, and a pending pod")
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

		By("the manager starts before the API server, with the arguments of config/static-pod/berth.yaml")
		down := newPendingAPIServer()
		probes, process := startManager(ctx, down)
		unanswered := SatisfyAll(HavePrefix("500"), ContainSubstring("[-]api-server failed"))
		Eventually(operator.Get).WithArguments(ctx, probes+"/readyz?verbose").Should(unanswered)
		Expect(operator.Get(ctx, probes+"/livez")).To(Equal("200 ok"))
		Eventually(os.ReadFile).WithArguments(process.Log()).Should(ContainSubstring("Waiting for the API server"))
		toEnd, another := startManager(ctx, down)
		Eventually(operator.Get).WithArguments(ctx, toEnd+"/readyz?verbose").Should(unanswered)
		Expect(cp.Terminate(ctx, another)).To(BeZero(), "exit code after SIGTERM while it waits")

		By("the API server starts")
		down.listen()
		Eventually(operator.Get).WithArguments(ctx, probes+"/readyz?verbose").Should(SatisfyAll(HavePrefix("500"), ContainSubstring("[-]crds failed")))

		By("the CRDs are created")
		Expect(cp.InstallCRDs(ctx, filepath.Join(root, "config", "crd"))).To(Succeed())
		Eventually(operator.Get).WithArguments(ctx, probes+"/readyz").Should(Equal("200 ok"))
		kubectl(ctx, "wait", "--for=create", "--timeout=60s", "sprof/default-scheduler")
		kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=60s", "sprof/default-scheduler")
		Eventually(podScheduled).WithArguments(ctx).Should(Equal(
			"False Unschedulable: 0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."))
		Expect(operator.Get(ctx, probes+"/healthz")).To(Equal("200 ok"))

		By("the node becomes ready")
		kubectl(ctx, "taint", "node", "n1", v1.TaintNodeNotReady+"-")
		Eventually(podScheduled).WithArguments(ctx).Should(Equal("True n1"))

		By("the permissions of config/static-pod sufficed, which are in kube-system only to read that Lease")
		_, err = cp.Client().CoordinationV1().Leases(operator.Namespace).Get(ctx, operator.Lease, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		entries, err := auditLog.Entries()
		Expect(err).NotTo(HaveOccurred())
		var forbidden, elsewhere []string
		for i := range entries {
			if entries[i].Forbidden() {
				forbidden = append(forbidden, entries[i].String())
			}
			if entries[i].ObjectRef.Namespace == metav1.NamespaceSystem {
				elsewhere = append(elsewhere, entries[i].RequiredPermission())
			}
		}
		Expect(forbidden).To(BeEmpty())
		Expect(slices.Compact(elsewhere)).To(Equal([]string{"get leases.coordination.k8s.io kube-system/kube-scheduler"}))
	}, SpecTimeout(3*time.Minute))
})

// startManager starts the manager as the kubelet would, with an API server that does not
// listen yet, and returns the URL of its probes.
func startManager(ctx context.Context, down pendingAPIServer) (probes string, process *controlplane.Process) {
	GinkgoHelper()
	pod := staticPod()
	kubeconfig, err := cp.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	down.writeTo(kubeconfig)
	free, err := controlplane.FreeAddresses(2)
	Expect(err).NotTo(HaveOccurred())
	process, err = cp.Run(manager, replaceArgs(pod.Spec.Containers[0].Args, map[string]string{
		"--kubeconfig": kubeconfig, "--health-probe-bind-address": free[0], "--metrics-bind-address": free[1],
	})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.End(process) })
	return "http://" + free[0], process
}

// pendingAPIServer is an address at which the API server does not listen yet.
type pendingAPIServer string

func newPendingAPIServer() pendingAPIServer {
	GinkgoHelper()
	free, err := controlplane.FreeAddresses(1)
	Expect(err).NotTo(HaveOccurred())
	return pendingAPIServer(free[0])
}

// writeTo writes this address into a kubeconfig.
func (a pendingAPIServer) writeTo(kubeconfig string) {
	GinkgoHelper()
	text, err := os.ReadFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(kubeconfig, bytes.ReplaceAll(text, []byte(cp.Config().Host), []byte("https://"+string(a))), 0o600)).To(Succeed())
}

// listen forwards connections to the API server from now on.
func (a pendingAPIServer) listen() {
	GinkgoHelper()
	listener, err := net.Listen("tcp", string(a))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // the spec has ended
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

// podScheduled returns the node of the pod, or its condition PodScheduled.
func podScheduled(ctx context.Context) (string, error) {
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

var (
	cp   *controlplane.ControlPlane
	root string
	// manager is the path of the manager's binary.
	manager string
	// auditLog is the API server's audit log of the manager's requests.
	auditLog audit.Log
)

func TestColdStart(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "cold start")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	manager, err = operator.Build(ctx)
	Expect(err).NotTo(HaveOccurred())
	var rules []string
	auditLog, rules, err = audit.New(GinkgoT().TempDir(), audit.User("system:serviceaccount:"+operator.Namespace+":"+operator.Account))
	Expect(err).NotTo(HaveOccurred())
	// The specs set whether nodes are ready.
	cp, err = controlplane.Start(ctx, controlplane.Options{APIServerArgs: append(rules, "--disable-admission-plugins=ServiceAccount")})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
}, NodeTimeout(15*time.Minute))

// staticPod returns the static pod of config.
func staticPod() v1.Pod {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "config", "static-pod", "berth.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var pod v1.Pod
	Expect(yaml.UnmarshalStrict(text, &pod)).To(Succeed())
	return pod
}

// replaceArgs replaces the values of flags, which must be set.
func replaceArgs(args []string, values map[string]string) []string {
	GinkgoHelper()
	args = slices.Clone(args)
	for flag, value := range values {
		i := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
		Expect(i).NotTo(Equal(-1), "the static pod has no %s", flag)
		args[i] = flag + "=" + value
	}
	return args
}
