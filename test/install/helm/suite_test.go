// Package helm installs, upgrades and rolls back the chart charts/berth with Helm on a real
// control plane. `make helm-e2e` runs it; `make test` does not.
package helm

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var program = flag.String("helm", "", "the `path` that tools/build-helm.sh prints; empty: nothing runs")

var (
	cp *controlplane.ControlPlane
	// root is the folder of the module.
	root string
)

func TestHelm(t *testing.T) {
	if *program == "" {
		t.Skip("make helm-e2e runs it")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "helm")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	var err error
	root, err = controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { cp.Stop() })
}, NodeTimeout(15*time.Minute))

// helm runs Helm as the administrator, with its files in the suite's folder. The error has
// its output.
func helm(ctx context.Context, args ...string) (string, error) {
	files := filepath.Join(cp.Dir(), "helm")
	// The last value of a flag counts.
	args = append([]string{args[0], "--namespace=" + operator.Namespace, "--kubeconfig=" + cp.Kubeconfig()}, args[1:]...)
	command := exec.CommandContext(ctx, *program, args...)
	command.Env = append(command.Environ(), "HELM_CACHE_HOME="+files, "HELM_CONFIG_HOME="+files, "HELM_DATA_HOME="+files)
	var errOut bytes.Buffer
	command.Stderr = &errOut
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("helm %v: %w: %s%s", args, err, out, errOut.String())
	}
	return string(out), nil
}

func chart() string { return filepath.Join(root, "charts", "berth") }

var _ = Describe("A release", Ordered, func() {
	It("is installed, and its account can schedule", SpecTimeout(12*time.Minute), func(ctx SpecContext) {
		output, err := helm(ctx, "install", "berth", chart(), "--create-namespace")
		Expect(err).NotTo(HaveOccurred())
		Expect(output).To(ContainSubstring("kubectl berth check\n"), "the next steps")
		binary, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		manager, err := operator.Start(ctx, cp, binary)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(manager.Process) })
		_, err = operator.UntilProgrammed(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		expectBound(ctx, "installed")
	})

	It("is upgraded to other values, and keeps its profile", SpecTimeout(time.Minute), func(ctx SpecContext) {
		before, err := operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = helm(ctx, "upgrade", "berth", chart(), "--values="+filepath.Join(chart(), "values-production.yaml"), "--set=components.extenders=true")
		Expect(err).NotTo(HaveOccurred())
		Expect(flowSchema(ctx)).To(Succeed())
		Expect(managerArgs(ctx)).To(ContainElement("--enable-extenders"))
		after, err := operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
	})

	It("is rolled back", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "rollback", "berth", "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(apierrors.IsNotFound(flowSchema(ctx))).To(BeTrue(), "the FlowSchema is deleted")
		Expect(managerArgs(ctx)).NotTo(ContainElement("--enable-extenders"))
		_, err = operator.UntilProgrammed(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
	})

	It("upgrades the CRDs, unless crds.install is false", SpecTimeout(time.Minute), func(ctx SpecContext) {
		const kind = "crd/schedulingprofiles.berth.dev"
		const served = "--output=jsonpath={.spec.names.shortNames}"
		kubectl(ctx, "patch", kind, "--type=merge", `--patch={"spec":{"names":{"shortNames":["sprof","older"]}}}`)
		_, err := helm(ctx, "upgrade", "berth", chart(), "--set=crds.install=false")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubectl(ctx, "get", kind, served)).To(ContainSubstring("older"), "unchanged")
		_, err = helm(ctx, "upgrade", "berth", chart(), "--set=crds.install=true", "--force-conflicts")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubectl(ctx, "get", kind, served)).To(Equal(`["sprof"]`))
	})

	It("keeps the CRDs and the profiles when it is uninstalled", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "uninstall", "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = cp.Client().AppsV1().Deployments(operator.Namespace).Get(ctx, "berth-manager", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Deployment is gone")
	})

	It("can be installed again", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "install", "berth", chart())
		Expect(err).NotTo(HaveOccurred())
	})
})

// expectBound waits until a pod of the profile berth is bound.
func expectBound(ctx context.Context, name string) {
	GinkgoHelper()
	node := fixture.Node(name).Capacity("cpu", "4", "memory", "8Gi", "pods", "110").Obj()
	_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { return checkAccount(ctx) }).Should(Succeed())
	pod := fixture.Pod("default/" + name).SchedulerName("berth").Valid()
	pod.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	_, err = cp.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() (string, error) {
		bound, err := cp.Client().CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return bound.Spec.NodeName, err
	}).Should(Equal(name))
	Expect(cp.Running()).To(Succeed())
}

// checkAccount returns nil when the account default exists, which every pod needs.
func checkAccount(ctx context.Context) error {
	_, err := cp.Client().CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}

func flowSchema(ctx context.Context) error {
	_, err := cp.Client().FlowcontrolV1().FlowSchemas().Get(ctx, "berth-scheduling", metav1.GetOptions{})
	return err
}

func managerArgs(ctx context.Context) []string {
	GinkgoHelper()
	d, err := cp.Client().AppsV1().Deployments(operator.Namespace).Get(ctx, "berth-manager", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return d.Spec.Template.Spec.Containers[0].Args
}

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cp.Kubectl(ctx, nil, args...)
	Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(out)
}
