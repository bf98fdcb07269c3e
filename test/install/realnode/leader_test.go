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

// every is how often a stream creates a pod.
const every = 100 * time.Millisecond

// newLeader waits until another process than before holds the Lease.
func newLeader(ctx context.Context, before string) {
	GinkgoHelper()
	Eventually(func(g Gomega) string { return holder(ctx, g) }).WithContext(ctx).ShouldNot(Or(BeEmpty(), Equal(before)))
}

// holder returns the holder's identity in the Lease.
func holder(ctx context.Context, g Gomega) string {
	var l coordinationv1.Lease
	g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: lease}, &l)).To(Succeed())
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// leaderEnds specifies how pods fare while the leader of config/default ends.
func leaderEnds() {
	It("gives the Lease back upon SIGTERM", fewMinutes, func(ctx SpecContext) {
		w, err := cluster.Client().CoordinationV1().Leases(operator.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + lease})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(w.Stop)
		before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
		Expect(admin.Delete(ctx, &old)).To(Succeed())
		var holders []string // in their order, each once
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
		}).WithContext(ctx).Should(HaveExactElements(before, "", Not(Or(BeEmpty(), Equal(before)))), "the Lease was given back, and taken by the other replica")
		Eventually(admin.Get).WithArguments(ctx, client.ObjectKeyFromObject(&old), &old).Should(MatchError(ContainSubstring("not found")))
		expectReady(ctx, 2)
	})

	It("binds every pod at its first attempt while the leader's pod is deleted", fewMinutes, func(ctx SpecContext) {
		s := startStream(ctx, "deleted", every)
		for range 3 {
			s.reaches(ctx, s.count()+10)
			before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
			Expect(admin.Delete(ctx, &old)).To(Succeed())
			newLeader(ctx, before)
			expectReady(ctx, 2)
		}
		s.reaches(ctx, s.count()+20)
		s.expectAllRun(ctx)
	})

	It("binds every pod at its first attempt while the leader is killed", fewMinutes, func(ctx SpecContext) {
		s := startStream(ctx, "killed", 2*every)
		s.reaches(ctx, 10)
		before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
		signalProcess(process(old), syscall.SIGKILL)
		Eventually(restarted(ctx, old)).WithContext(ctx).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		newLeader(ctx, before)
		expectReady(ctx, 2)
		s.reaches(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})

	It("binds every pod at its first attempt while the leader runs out of memory", fewMinutes, func(ctx SpecContext) {
		s := startStream(ctx, "out-of-memory", 2*every)
		s.reaches(ctx, 10)
		before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
		memory, err := node.MemoryOf(process(old))
		Expect(err).NotTo(HaveOccurred())
		Eventually(func(g Gomega) *corev1.ContainerStateTerminated {
			_ = memory.LimitToUsage() // fails while the kernel reclaims, and once the container ended
			return restarted(ctx, old)(g)
		}).WithContext(ctx).Should(HaveField("Reason", "OOMKilled"))
		newLeader(ctx, before)
		expectReady(ctx, 2)
		s.reaches(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})

	It("is restarted by the kubelet when it hangs, and the other replica schedules meanwhile", fewMinutes, func(ctx SpecContext) {
		before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
		signalProcess(process(old), syscall.SIGSTOP)
		newLeader(ctx, before)
		pod := webPod(metav1.NamespaceDefault, "while-one-hangs")
		Expect(admin.Create(ctx, pod)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { admin.Remove(ctx, pod) })
		Eventually(phase).WithArguments(ctx, pod).Should(Equal(corev1.PodRunning))
		Eventually(restarted(ctx, old)).WithContext(ctx).WithTimeout(4 * time.Minute).Should(HaveField("ExitCode", BeEquivalentTo(137)))
		Expect(messages(ctx, operator.Namespace, old.Name)).To(ContainElement(ContainSubstring("Liveness probe failed")))
		expectReady(ctx, 2)
	})
}

// phase reads a pod again and returns its phase.
func phase(ctx context.Context, pod *corev1.Pod) (corev1.PodPhase, error) {
	err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
	return pod.Status.Phase, err
}

// messages returns the messages of the Events about an object of that name.
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
