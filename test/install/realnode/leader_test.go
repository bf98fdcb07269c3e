package realnode

import (
	"context"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

// streamInterval is how often a stream creates a pod.
const streamInterval = 100 * time.Millisecond

// expectNewLeader waits until the Lease has another holder than before.
func expectNewLeader(ctx context.Context, before string) {
	GinkgoHelper()
	Eventually(func(g Gomega) string { return leaseHolder(ctx, g) }).WithContext(ctx).ShouldNot(Or(BeEmpty(), Equal(before)))
}

// leaseHolder returns the holder of the Lease.
func leaseHolder(ctx context.Context, g Gomega) string {
	var l coordinationv1.Lease
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: lease}, &l)).To(Succeed())
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// specLeaderEnds specifies that pods are bound while the leader of config/default ends.
func specLeaderEnds() {
	It("releases the Lease after SIGTERM", specTimeout, func(ctx SpecContext) {
		w, err := cluster.Client().CoordinationV1().Leases(operator.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + lease})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		Expect(admin.Delete(ctx, &old)).To(Succeed())
		var holders []string // in order, each once
		Eventually(func() []string {
			for {
				select {
				case event := <-w.ResultChan():
					l, ok := event.Object.(*coordinationv1.Lease)
					if ok && l.Spec.HolderIdentity != nil && (len(holders) == 0 || holders[len(holders)-1] != *l.Spec.HolderIdentity) {
						holders = append(holders, *l.Spec.HolderIdentity)
					}
				default:
					return holders
				}
			}
		}).WithContext(ctx).Should(HaveExactElements(before, "", Not(Or(BeEmpty(), Equal(before)))), "the Lease was released, and acquired by the other replica")
		Eventually(admin.Get).WithArguments(ctx, client.ObjectKeyFromObject(&old), &old).Should(MatchError(ContainSubstring("not found")))
		expectReady(ctx, 2)
	})

	It("binds every pod at its first attempt while the leader's pod is deleted", specTimeout, func(ctx SpecContext) {
		s := startStream(ctx, "deleted", streamInterval)
		for range 3 {
			s.expectCreated(ctx, s.count()+10)
			before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
			Expect(admin.Delete(ctx, &old)).To(Succeed())
			expectNewLeader(ctx, before)
			expectReady(ctx, 2)
		}
		s.expectCreated(ctx, s.count()+20)
		s.expectAllRun(ctx)
	})

	It("binds every pod at its first attempt while the leader is killed", specTimeout, func(ctx SpecContext) {
		s := startStream(ctx, "killed", 2*streamInterval)
		s.expectCreated(ctx, 10)
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		signalProcess(process(old), syscall.SIGKILL)
		Eventually(restarted(ctx, old)).WithContext(ctx).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		expectNewLeader(ctx, before)
		expectReady(ctx, 2)
		s.expectCreated(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})

	It("binds every pod at its first attempt while the leader runs out of memory", specTimeout, func(ctx SpecContext) {
		s := startStream(ctx, "out-of-memory", 2*streamInterval)
		s.expectCreated(ctx, 10)
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		memory, err := node.MemoryOf(process(old))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) *corev1.ContainerStateTerminated {
			_ = memory.LimitToUsage() // fails while the kernel reclaims, and once the container ended
			return restarted(ctx, old)(g)
		}).WithContext(ctx).Should(HaveField("Reason", "OOMKilled"))
		expectNewLeader(ctx, before)
		expectReady(ctx, 2)
		s.expectCreated(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})

	It("is restarted by the kubelet when it hangs, and the other replica schedules meanwhile", specTimeout, func(ctx SpecContext) {
		before, old := leaseHolder(ctx, Default), leader(ctx, Default, operator.Namespace)
		signalProcess(process(old), syscall.SIGSTOP)
		expectNewLeader(ctx, before)
		pod := webPod(metav1.NamespaceDefault, "while-one-hangs")
		Expect(admin.Create(ctx, pod)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { admin.Remove(ctx, pod) })
		Eventually(phase).WithArguments(ctx, pod).Should(Equal(corev1.PodRunning))
		Eventually(restarted(ctx, old)).WithContext(ctx).WithTimeout(4 * time.Minute).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		Expect(messages(ctx, operator.Namespace, old.Name)).To(ContainElement(ContainSubstring("Liveness probe failed")))
		expectReady(ctx, 2)
	})
}

// phase reads a pod and returns its phase.
func phase(ctx context.Context, pod *corev1.Pod) (corev1.PodPhase, error) {
	err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	return pod.Status.Phase, err
}

// messages returns the messages of the Events about an object.
func messages(ctx context.Context, namespace, name string) []string {
	GinkgoHelper()
	events, err := cluster.Client().CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	Expect(err).NotTo(HaveOccurred())
	var all []string
	for _, event := range events.Items {
		all = append(all, event.Message)
	}
	return all
}
