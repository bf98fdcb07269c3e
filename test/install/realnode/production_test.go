package realnode

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/install/realnode/node"
	"github.com/berthdev/berth/test/support/operator"
)

var _ = Describe("config/production", Ordered, Label("production"), func() {
	clusterFor("production", node.Options{KubeScheduler: true, FakeNodes: 3})
	installed("config/production", 1)

	It("keeps its replicas apart: one runs, and the other waits for a second node", fewMinutes, func(ctx SpecContext) {
		runs, waits := leader(ctx, Default, operator.Namespace), corev1.Pod{}
		for _, pod := range managers(ctx, Default) {
			Expect(pod.Spec.PriorityClassName).To(Equal("system-cluster-critical"))
			if pod.Name != runs.Name {
				waits = pod
			}
		}
		Expect(runs.Spec.NodeName).To(Equal(node.Name))
		Expect(messages(ctx, operator.Namespace, waits.Name)).To(ContainElement(ContainSubstring("didn't match pod anti-affinity rules")))
		expectConfined(process(runs))
		var policies networkingv1.NetworkPolicyList
		Expect(admin.List(ctx, &policies)).To(Succeed())
		Expect(policies.Items).To(ConsistOf(HaveField("Name", "berth-metrics")))
	})

	It("refuses to have its only running replica evicted", fewMinutes, func(ctx SpecContext) {
		Eventually(func(g Gomega) {
			var budget policyv1.PodDisruptionBudget
			g.Expect(admin.Get(ctx, types.NamespacedName{Namespace: operator.Namespace, Name: deployment}, &budget)).To(Succeed())
			g.Expect(budget.Status).To(SatisfyAll(HaveField("CurrentHealthy", BeEquivalentTo(1)), HaveField("DisruptionsAllowed", BeZero())))
		}).Should(Succeed())
		runs := leader(ctx, Default, operator.Namespace)
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: runs.Namespace, Name: runs.Name}}
		err := cluster.Client().PolicyV1().Evictions(runs.Namespace).Evict(ctx, eviction)
		Expect(apierrors.IsTooManyRequests(err)).To(BeTrue(), "the answer was %v", err)
	})

	It("binds every pod at its first attempt when its only replica is replaced", fewMinutes, func(ctx SpecContext) {
		s := startStream(ctx, "replaced", 2*every)
		s.reaches(ctx, 10)
		before, old := holder(ctx, Default), leader(ctx, Default, operator.Namespace)
		Expect(admin.Delete(ctx, &old)).To(Succeed())
		newLeader(ctx, before)
		expectReady(ctx, 1)
		s.reaches(ctx, s.count()+10)
		s.expectAllRun(ctx)
	})
})
