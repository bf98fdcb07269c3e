package realnode

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

// mirror is the pod by which the API server shows the static pod.
var mirror = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "berth-" + node.Name}

var _ = Describe("config/static-pod", Ordered, Label("static-pod"), func() {
	clusterFor("static-pod", node.Options{})

	first := webPod(metav1.NamespaceDefault, "before-any-scheduler")
	BeforeAll(func(ctx SpecContext) {
		first.Spec.SchedulerName = ""
		Expect(admin.Create(ctx, first)).To(Succeed())
		installStaticPod(ctx)
		Eventually(mirrorReady).WithArguments(ctx).Should(BeTrue())
	}, starting)

	It("is the only scheduler of an empty cluster, as the guide sets it up", fewMinutes, func(ctx SpecContext) {
		Expect(cluster.Process("kube-scheduler")).To(BeNil())
		Eventually(phase).WithArguments(ctx, first).Should(Equal(corev1.PodRunning))
		Expect(first.Annotations).To(HaveKeyWithValue("berth.dev/decision", ContainSubstring(`"profile":"default-scheduler"`)))
		var l coordinationv1.Lease
		Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: lease}, &l)).To(Succeed())
		Expect(l.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
	})

	It("runs without root, capabilities or a root file system that it can write", fewMinutes, func(ctx SpecContext) {
		expectConfined(process(mirrorPod(ctx, Default)))
	})

	It("is started again by the kubelet when it is killed, and schedules again", fewMinutes, func(ctx SpecContext) {
		before := mirrorPod(ctx, Default)
		signalProcess(process(before), syscall.SIGKILL)
		Eventually(restarted(ctx, before)).WithContext(ctx).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		pod := webPod(metav1.NamespaceDefault, "after-a-kill")
		pod.Spec.SchedulerName = ""
		create(ctx, pod)
		Eventually(phase).WithArguments(ctx, pod).Should(Equal(corev1.PodRunning))
	})
})

// installStaticPod does what docs/guide/default-scheduler.md says: the kinds, the
// account, its kubeconfig, and the manifest into the kubelet's folder.
func installStaticPod(ctx context.Context) {
	GinkgoHelper()
	root, err := controlplane.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	for _, folder := range []string{"crd", "static-pod"} {
		_, err := cluster.Kubectl(ctx, nil, "apply", "--server-side", "--kustomize="+filepath.Join(root, "config", folder))
		Expect(err).NotTo(HaveOccurred())
	}
	writeBerthKubeconfig(ctx)
	text, err := os.ReadFile(filepath.Join(root, "config", "static-pod", "berth.yaml"))
	Expect(err).NotTo(HaveOccurred())
	manifest := string(text)
	for from, to := range map[string]string{
		"image: berth:latest": "image: " + imagesOnNode().Manager,
		// No kube-scheduler ever ran here.
		"--other-scheduler-lease=kube-system/kube-scheduler": "--other-scheduler-lease=none",
	} {
		Expect(manifest).To(ContainSubstring(from))
		manifest = strings.Replace(manifest, from, to, 1)
	}
	Expect(os.WriteFile(filepath.Join(cluster.StaticPods(), "berth.yaml"), []byte(manifest), 0o644)).To(Succeed())
}

// writeBerthKubeconfig puts a token of Berth's account where the static pod reads it,
// for its user alone. /etc is a copy on write of the machine's.
func writeBerthKubeconfig(ctx context.Context) {
	GinkgoHelper()
	const path, user = "/etc/kubernetes/berth.conf", 65532
	source, err := cluster.ServiceAccountKubeconfig(ctx, operator.Namespace, operator.Account)
	Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(source)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	Expect(os.WriteFile(path, text, 0o400)).To(Succeed())
	Expect(os.Chown(path, user, user)).To(Succeed())
}

func mirrorPod(ctx context.Context, g Gomega) corev1.Pod {
	var pod corev1.Pod
	g.Expect(admin.Get(ctx, mirror, &pod)).To(Succeed())
	return pod
}

func mirrorReady(ctx context.Context) (bool, error) {
	return ready(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: mirror.Namespace, Name: mirror.Name}})
}
