package helm

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("A release", Ordered, func() {
	It("is installed, and its account schedules", SpecTimeout(12*time.Minute), func(ctx SpecContext) {
		said, err := helm(ctx, "install", "berth", chart(), "--create-namespace")
		Expect(err).NotTo(HaveOccurred())
		Expect(said).To(ContainSubstring("kubectl berth check\n"), "what to do next")
		binary, err := operator.Build(ctx)
		Expect(err).NotTo(HaveOccurred())
		manager, err := operator.Start(ctx, cp, binary)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { cp.End(manager.Process) })
		_, err = operator.UntilProgrammed(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		expectBound(ctx, "installed")
	})

	It("is upgraded to other values, while its profile stays", SpecTimeout(time.Minute), func(ctx SpecContext) {
		before, err := operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = helm(ctx, "upgrade", "berth", chart(), "--values="+filepath.Join(chart(), "values-production.yaml"), "--set=components.extenders=true")
		Expect(err).NotTo(HaveOccurred())
		Expect(flowSchema(ctx)).To(Succeed())
		Expect(args(ctx)).To(ContainElement("--enable-extenders"))
		after, err := operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		Expect(after.UID).To(Equal(before.UID))
	})

	It("is rolled back to what it was", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "rollback", "berth", "1")
		Expect(err).NotTo(HaveOccurred())
		Expect(apierrors.IsNotFound(flowSchema(ctx))).To(BeTrue(), "the FlowSchema goes")
		Expect(args(ctx)).NotTo(ContainElement("--enable-extenders"))
		_, err = operator.UntilProgrammed(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
	})

	It("upgrades the kinds with it, unless they are installed otherwise", SpecTimeout(time.Minute), func(ctx SpecContext) {
		const kind = "crd/schedulingprofiles.berth.dev"
		const served = "--output=jsonpath={.spec.names.shortNames}"
		kubectl(ctx, "patch", kind, "--type=merge", `--patch={"spec":{"names":{"shortNames":["sprof","older"]}}}`)
		_, err := helm(ctx, "upgrade", "berth", chart(), "--set=crds.install=false")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubectl(ctx, "get", kind, served)).To(ContainSubstring("older"), "kept as it is")
		_, err = helm(ctx, "upgrade", "berth", chart(), "--set=crds.install=true", "--force-conflicts")
		Expect(err).NotTo(HaveOccurred())
		Expect(kubectl(ctx, "get", kind, served)).To(Equal(`["sprof"]`))
	})

	It("leaves the kinds and the profiles when it is uninstalled", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "uninstall", "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = operator.Profile(ctx, cp, "berth")
		Expect(err).NotTo(HaveOccurred())
		_, err = cp.Client().AppsV1().Deployments(operator.Namespace).Get(ctx, "berth-manager", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Deployment is gone")
	})

	It("can be installed again over what it left", SpecTimeout(time.Minute), func(ctx SpecContext) {
		_, err := helm(ctx, "install", "berth", chart())
		Expect(err).NotTo(HaveOccurred())
	})
})

// expectBound waits until a pod of the profile berth has a node.
func expectBound(ctx context.Context, name string) {
	GinkgoHelper()
	node := fixture.Node(name).Capacity("cpu", "4", "memory", "8Gi", "pods", "110").Obj()
	_, err := cp.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error { return accountIsThere(ctx) }).Should(Succeed())
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

// accountIsThere is nil once pods can be created: each has the account default.
func accountIsThere(ctx context.Context) error {
	_, err := cp.Client().CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
	return err
}

func flowSchema(ctx context.Context) error {
	_, err := cp.Client().FlowcontrolV1().FlowSchemas().Get(ctx, "berth-scheduling", metav1.GetOptions{})
	return err
}

func args(ctx context.Context) []string {
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
