// Package realnode tests Berth's image on a real kubelet with containerd: as each folder of
// config installs it, under load, and while its leader ends.
//
// `make real-node` runs it in namespaces of its own. Otherwise the suite is skipped, since
// it changes the network and the mounts of the machine.
package realnode

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
)

var (
	dir        = flag.String("dir", "", "the folder of the clusters' data and logs")
	kubelet    = flag.String("kubelet", "", "the path of the kubelet")
	containerd = flag.String("containerd", "", "the folder of containerd, its shim and its client")
	driver     = flag.String("devicedriver", "", "the path of the driver in test/support/devicedriver")
	images     = flag.String("images", "", "the folder with the images' archives")
	version    = flag.String("version", "", "the version in the images' names")
	release    = flag.String("release", "", "the folder of make release-snapshot, to be installed in place of config's manifests")
	helm       = flag.String("helm", "", "the path of Helm, which installs the chart of that release")
	attach     = flag.String("attach", "", "do not start a cluster: use the one that runs in this folder")
	keep       = flag.Bool("keep", false, "leave the cluster of the last spec running until Ctrl-C")
)

func TestRealNode(t *testing.T) {
	if *dir == "" && *attach == "" {
		t.Skip("make real-node runs this suite, in namespaces of its own")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "a real node")
}

const (
	// specTimeout is the timeout of a spec: pods start within seconds, a Lease expires
	// after 15 s, and the kubelet takes two minutes to restart a process that hangs.
	specTimeout = SpecTimeout(5 * time.Minute)
	// startTimeout is the timeout of the start of a cluster.
	startTimeout = NodeTimeout(5 * time.Minute)
)

var (
	cluster *node.Cluster
	admin   apitest.API
)

var _ = BeforeSuite(func() {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(90 * time.Second)
	SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
})

func imagesOnNode() node.Images {
	name := func(image string) string { return "berth.test/" + image + ":" + *version }
	all := node.Images{Dir: *images, Manager: name("manager"), Workload: name("workload"), Pause: name("pause"), Release: *release}
	if *release != "" {
		all.Manager = node.SnapshotImage
	}
	return all
}

// startCluster starts a cluster before the first spec of an Ordered container, and stops it
// after the last one.
func startCluster(name string, options node.Options) {
	BeforeAll(func(ctx SpecContext) {
		var err error
		if *attach != "" {
			cluster, err = node.Attach(ctx, *attach, imagesOnNode())
			Expect(err).NotTo(HaveOccurred())
		} else {
			options.Dir, options.Images = filepath.Join(*dir, name), imagesOnNode()
			options.Kubelet, options.Containerd = *kubelet, *containerd
			cluster, err = node.Start(ctx, options)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(stopCluster)
		}
		admin.Client, err = client.New(cluster.Config(), client.Options{Scheme: scheme.Scheme})
		Expect(err).NotTo(HaveOccurred())
	}, startTimeout)
}

func stopCluster() {
	if *keep {
		GinkgoWriter.Println("kept until Ctrl-C:", cluster.Dir())
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		<-ctx.Done()
	}
	if err := cluster.Stop(); err != nil {
		GinkgoWriter.Println("the cluster did not stop cleanly:", err)
	}
}

// installConfig applies a folder under config and waits until its manager leads.
func installConfig(config string, ready int32) {
	BeforeAll(func(ctx SpecContext) {
		Expect(cluster.Install(ctx, config)).To(Succeed())
		expectReady(ctx, ready)
	}, startTimeout)
}

// A spec that fails prints the logs of the managers and the objects of the cluster.
var _ = JustAfterEach(func(ctx SpecContext) {
	if !CurrentSpecReport().Failed() || cluster == nil {
		return
	}
	for _, args := range []string{"get nodes,pods,leases,sprof --all-namespaces --output=wide", "get events --all-namespaces --sort-by=.lastTimestamp"} {
		text, err := cluster.Kubectl(ctx, nil, strings.Fields(args)...)
		GinkgoWriter.Printf("kubectl %s: %v\n%s\n", args, err, tail(text, 60))
	}
	for path, text := range managerLogs() {
		GinkgoWriter.Printf("%s:\n%s\n", path, tail(text, 40))
	}
}, NodeTimeout(time.Minute))

// mirror is the mirror pod of the static pod.
var mirror = types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: "berth-" + node.Name}

var _ = Describe("config/static-pod", Ordered, Label("static-pod"), func() {
	startCluster("static-pod", node.Options{})

	first := webPod(metav1.NamespaceDefault, "before-any-scheduler")
	BeforeAll(func(ctx SpecContext) {
		first.Spec.SchedulerName = ""
		Expect(admin.Create(ctx, first)).To(Succeed())
		installStaticPod(ctx)
		Eventually(mirrorReady).WithArguments(ctx).Should(BeTrue())
	}, startTimeout)

	It("is the only scheduler of an empty cluster, as the guide sets it up", specTimeout, func(ctx SpecContext) {
		Expect(cluster.Process("kube-scheduler")).To(BeNil())
		Eventually(phase).WithArguments(ctx, first).Should(Equal(corev1.PodRunning))
		Expect(first.Annotations).To(HaveKeyWithValue("berth.dev/decision", ContainSubstring(`"profile":"default-scheduler"`)))
		var l coordinationv1.Lease
		Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: lease}, &l)).To(Succeed())
		Expect(l.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
	})

	It("runs without root, capabilities or a writable root file system", specTimeout, func(ctx SpecContext) {
		expectConfined(process(mirrorPod(ctx, Default)))
	})

	It("is restarted by the kubelet when it is killed, and schedules again", specTimeout, func(ctx SpecContext) {
		before := mirrorPod(ctx, Default)
		signalProcess(process(before), syscall.SIGKILL)
		Eventually(restarted(ctx, before)).WithContext(ctx).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		pod := webPod(metav1.NamespaceDefault, "after-a-kill")
		pod.Spec.SchedulerName = ""
		create(ctx, pod)
		Eventually(phase).WithArguments(ctx, pod).Should(Equal(corev1.PodRunning))
	})
})

// installStaticPod follows docs/guide/default-scheduler.md: the CRDs, the account, its
// kubeconfig, and the manifest in the kubelet's folder.
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

// writeBerthKubeconfig writes a token of Berth's account to the file that the static pod
// reads, for its user only. /etc is a copy-on-write mount.
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

var _ = Describe("config/production", Ordered, Label("production"), func() {
	startCluster("production", node.Options{KubeScheduler: true, FakeNodes: 3})
	installConfig("config/production", 1)

	It("keeps its replicas apart: one runs, and the other waits for a second node", specTimeout, func(ctx SpecContext) {
		running, pending := leader(ctx, Default, operator.Namespace), corev1.Pod{}
		for _, pod := range managers(ctx, Default) {
			Expect(pod.Spec.PriorityClassName).To(Equal("system-cluster-critical"))
			if pod.Name != running.Name {
				pending = pod
			}
		}
		Expect(running.Spec.NodeName).To(Equal(node.Name))
		Expect(messages(ctx, operator.Namespace, pending.Name)).To(ContainElement(ContainSubstring("didn't match pod anti-affinity rules")))
		expectConfined(process(running))
		var policies networkingv1.NetworkPolicyList
		Expect(admin.List(ctx, &policies)).To(Succeed())
		Expect(policies.Items).To(ConsistOf(HaveField("Name", "berth-metrics")))
	})

	It("does not let its only running replica be evicted", specTimeout, func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var budget policyv1.PodDisruptionBudget
			g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: deployment}, &budget)).To(Succeed())
			g.Expect(budget.Status).To(SatisfyAll(HaveField("CurrentHealthy", BeEquivalentTo(1)), HaveField("DisruptionsAllowed", BeZero())))
		}).Should(Succeed())
		running := leader(ctx, Default, operator.Namespace)
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: running.Namespace, Name: running.Name}}
		err := cluster.Client().PolicyV1().Evictions(running.Namespace).Evict(ctx, eviction)
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "the answer was %v", err)
	})

	It("binds every pod at its first attempt when its only replica is replaced", specTimeout, func(ctx SpecContext) {
		s := startStream(ctx, "replaced", 2*streamInterval)
		s.expectCreated(ctx, 10)
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		Expect(admin.Delete(ctx, &old)).To(Succeed())
		expectNewLeader(ctx, before)
		expectReady(ctx, 1)
		s.expectCreated(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})
})
