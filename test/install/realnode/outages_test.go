package realnode

import (
	"context"
	"net"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

// outageDuration is longer than a Lease is valid.
const outageDuration = 30 * time.Second

// specOutages specifies that every profile keeps running, and is reported so, whatever ends
// the replicas of config/default within ten minutes.
func specOutages() {
	It("runs its profile and binds every pod after two kills, a drain, two outages of the API server, and an OOM", SpecTimeout(15*time.Minute), func(ctx SpecContext) {
		expectReady(ctx, 2)
		token, err := operator.AccountWith(ctx, cluster.ControlPlane, "scraper", operator.ScrapeRole)
		Expect(err).NotTo(HaveOccurred())
		witness, err := operator.WatchProblems(ctx, cluster.ControlPlane)
		Expect(err).NotTo(HaveOccurred())
		hash := runningHash(ctx)
		expectServing := func(after string) {
			GinkgoHelper()
			pod := webPod(metav1.NamespaceDefault, "after-"+after)
			pod.Spec.Tolerations = tolerateFake
			create(ctx, pod)
			Eventually(admin.NodeName(ctx, pod)).WithContext(ctx).ShouldNot(BeEmpty(), after)
			Eventually(func(g Gomega) string {
				m := operator.Manager{Metrics: net.JoinHostPort(leader(ctx, g, operator.Namespace).Status.PodIP, "8443")}
				_, text, err := m.Scrape(ctx, token)
				g.Expect(err).NotTo(HaveOccurred())
				_, err = witness.ReadMetrics(text)
				g.Expect(err).NotTo(HaveOccurred())
				return string(text)
			}).WithContext(ctx).Should(ContainSubstring(`berth_profile_running{profile="berth"} 1`), after)
			Expect(witness.Problems()).To(BeEmpty(), after)
			Expect(runningHash(ctx)).To(Equal(hash), after)
		}

		for _, kill := range []string{"first-kill", "second-kill"} {
			By(kill)
			before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
			signalProcess(process(old), syscall.SIGKILL)
			expectNewLeader(ctx, before)
			expectServing(kill)
		}

		By("the node is drained")
		expectReady(ctx, 2)
		_, err = drain(ctx, "--timeout=20s")
		Expect(err).To(MatchError(ContainSubstring("violate the pod's disruption budget")), "one replica must be left, whichever leads")
		expectServing("drain-of-one")
		_, err = drain(ctx, "--disable-eviction", "--timeout=60s")
		Expect(err).NotTo(HaveOccurred())
		pending := webPod(metav1.NamespaceDefault, "pending-for-the-node")
		pending.Spec.Tolerations = tolerateFake
		create(ctx, pending)
		_, err = cluster.Kubectl(ctx, nil, "uncordon", node.Name)
		Expect(err).NotTo(HaveOccurred())
		Eventually(admin.NodeName(ctx, pending)).WithContext(ctx).ShouldNot(BeEmpty())
		expectReady(ctx, 2)
		expectServing("drain-of-all")

		By("the API server hangs")
		before := leaseHolder(ctx, Default)
		api := cluster.Process("kube-apiserver")
		Expect(api.Signal(syscall.SIGSTOP)).To(Succeed())
		waitOutage(ctx)
		Expect(api.Signal(syscall.SIGCONT)).To(Succeed())
		expectNewLeader(ctx, before)
		expectServing("hang")

		By("the API server ends")
		before = leaseHolder(ctx, Default)
		again := cluster.StopAPIServer()
		waitOutage(ctx)
		Expect(again(ctx)).To(Succeed())
		expectNewLeader(ctx, before)
		expectServing("end")

		By("the leader runs out of memory")
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		memory, err := node.MemoryOf(process(old))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) *corev1.ContainerStateTerminated {
			_ = memory.LimitToUsage() // fails while the kernel reclaims, and once the container ended
			return restarted(ctx, old)(g)
		}).WithContext(ctx).Should(HaveField("Reason", "OOMKilled"))
		expectNewLeader(ctx, before)
		expectServing("oom")
		expectReady(ctx, 2)
	})
}

// waitOutage waits for the duration of an outage, in which the API server must not answer.
func waitOutage(ctx context.Context) {
	GinkgoHelper()
	Consistently(func() error {
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := cluster.Client().Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(short)
		return err
	}).WithTimeout(outageDuration).WithPolling(time.Second).Should(HaveOccurred())
}

// drain evicts Berth's pods from the node.
func drain(ctx context.Context, flags ...string) (string, error) {
	return cluster.Kubectl(ctx, nil, append([]string{
		"drain", node.Name, "--pod-selector=app.kubernetes.io/name=berth", "--ignore-daemonsets", "--delete-emptydir-data",
	}, flags...)...)
}

// runningHash returns the hash of the running profile.
func runningHash(ctx context.Context) string {
	GinkgoHelper()
	p, err := operator.Profile(ctx, cluster.ControlPlane, profile)
	Expect(err).NotTo(HaveOccurred())
	Expect(p.Status.Programmed).NotTo(BeNil())
	return p.Status.Programmed.Hash
}
