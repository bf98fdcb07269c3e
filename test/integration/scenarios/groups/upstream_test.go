package groups

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/test/support/apitest"
)

// The node has two CPUs, or as many as a scenario says; each member of a group wants one.

var _ = Describe("podgroup_test.go", func() {
	It("gang schedules when pod group and resources are available", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 3)
		group := env.podGroup(ctx, "pg1", 3)
		admin.ExpectBound(ctx, env.members(ctx, "pg1", 0, 3)...)
		expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
	})

	It("any available pod group members get scheduled", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		env.podGroup(ctx, "pg1", 3)
		admin.ExpectBound(ctx, env.members(ctx, "pg1", 0, 3)...)
		admin.ExpectBound(ctx, env.members(ctx, "pg1", 3, 1)...)
	})

	It("gang waits for quorum to start, then schedules", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 3)
		env.podGroup(ctx, "pg1", 3)
		pods := env.members(ctx, "pg1", 0, 2)
		expectGated(ctx, 2)
		admin.ExpectBound(ctx, append(pods, env.members(ctx, "pg1", 2, 1)...)...)
	})

	It("gang waits for pod group, then for resources, then schedules", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		blocker := admin.Pod(ctx, env.pod("blocker", 2))
		admin.ExpectBound(ctx, blocker)
		pods := env.members(ctx, "pg1", 0, 3)
		expectGated(ctx, 3)
		group := env.podGroup(ctx, "pg1", 3)
		expectWaiting(ctx, pods...)
		expectCondition(ctx, group, metav1.ConditionFalse, schedulingv1beta1.PodGroupReasonUnschedulable)
		admin.Remove(ctx, blocker)
		admin.ExpectBound(ctx, pods...)
		expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
	})

	It("minCount is scheduled, but one pod from a gang remain unschedulable until the blocked resources are released", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		blocker := admin.Pod(ctx, env.pod("blocker", 1))
		admin.ExpectBound(ctx, blocker)
		pods := env.members(ctx, "pg1", 0, 4)
		env.podGroup(ctx, "pg1", 3)
		Eventually(func(g Gomega) (bound int) {
			for _, pod := range pods {
				if admin.NodeName(ctx, pod)(g) != "" {
					bound++
				} else {
					g.Expect(admin.PodScheduled(ctx, pod)(g)).To(HavePrefix("False Unschedulable"))
				}
			}
			return bound
		}).Should(Equal(3))
		admin.Remove(ctx, blocker)
		admin.ExpectBound(ctx, pods...)
	})

	for name, order := range map[string][2]string{
		"two gangs competing for the same resources shouldn't deadlock, reversed order": {"pg2", "pg1"},
		"two gangs competing for the same resources shouldn't deadlock":                 {"pg1", "pg2"},
	} {
		It(name, specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 1, 4)
			env.podGroup(ctx, "pg1", 3)
			env.podGroup(ctx, "pg2", 3)
			env.waitForGroups(ctx)
			pods := map[string][]*v1.Pod{}
			for i := range 3 {
				for _, group := range order {
					pods[group] = append(pods[group], env.members(ctx, group, i, 1)...)
				}
			}
			admin.ExpectBound(ctx, pods[order[0]]...)
			expectWaiting(ctx, pods[order[1]]...)
		})
	}

	It("pod group interleaving with an individual pod shouldn't deadlock nor livelock, and the individual pod gets scheduled", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 3)
		env.podGroup(ctx, "pg1", 3)
		// A gang is queued by the time of its first member: after one, it would go first if it became
		// whole before the pod is decided.
		alone := admin.Pod(ctx, env.pod("alone", 1))
		pods := env.members(ctx, "pg1", 0, 3)
		admin.ExpectBound(ctx, alone)
		expectWaiting(ctx, pods...)
	})

	It("basic group schedules when pod group and resources are available, without gang enforcement", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 3)
		env.podGroup(ctx, "pg1", 0)
		admin.ExpectBound(ctx, env.members(ctx, "pg1", 0, 1)...)
		admin.ExpectBound(ctx, env.members(ctx, "pg1", 1, 2)...)
	})

	It("basic group waits for pod group, part of it waits for resources, then schedules", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		blocker := admin.Pod(ctx, env.pod("blocker", 2))
		admin.ExpectBound(ctx, blocker)
		pods := env.members(ctx, "pg1", 0, 3)
		expectGated(ctx, 3)
		env.podGroup(ctx, "pg1", 0)
		Eventually(func(g Gomega) (bound int) {
			for _, pod := range pods {
				if admin.NodeName(ctx, pod)(g) != "" {
					bound++
				} else {
					g.Expect(admin.PodScheduled(ctx, pod)(g)).To(HavePrefix("False Unschedulable"))
				}
			}
			return bound
		}).Should(Equal(2))
		admin.Remove(ctx, blocker)
		admin.ExpectBound(ctx, pods...)
	})

	It("gang pods are unschedulable due to lack of quorum, then scheduled when minCount is decreased", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		group := env.podGroup(ctx, "pg-mutable", 5)
		pods := env.members(ctx, "pg-mutable", 0, 4)
		expectGated(ctx, 4)
		apitest.Change(ctx, admin, group, func(g *schedulingv1beta1.PodGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 4 })
		admin.ExpectBound(ctx, pods...)
	})

	It("gang pods are unschedulable due to lack of space, then scheduled when minCount is decreased", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		group := env.podGroup(ctx, "pg-mutable", 5)
		pods := env.members(ctx, "pg-mutable", 0, 5)
		expectWaiting(ctx, pods...)
		apitest.Change(ctx, admin, group, func(g *schedulingv1beta1.PodGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 4 })
		Eventually(boundOf(ctx, pods)).Should(Equal(4))
	})

	It("gang pods are unschedulable due to lack of quorum, and remain unschedulable without triggering reschedule when minCount is increased", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 4)
		group := env.podGroup(ctx, "pg-mutable", 5)
		env.members(ctx, "pg-mutable", 0, 4)
		expectGated(ctx, 4)
		apitest.Change(ctx, admin, group, func(g *schedulingv1beta1.PodGroup) { g.Spec.SchedulingPolicy.Gang.MinCount = 6 })
		env.waitForGroups(ctx)
		expectGated(ctx, 4)
	})
})

var _ = Describe("queueing_test.go", func() {
	for kind, minCount := range map[string]int32{"gang": 2, "basic": 0} {
		It("Single gated pod blocks "+kind+" group from being scheduled until pod is ungated", specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 1, 4)
			env.podGroup(ctx, "pg1", minCount)
			gated := admin.Pod(ctx, env.member("gated", "pg1").SchedulingGate("example.com/wait"))
			pods := env.members(ctx, "pg1", 0, 2)
			expectGated(ctx, 3)
			apitest.Change(ctx, admin, gated, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
			admin.ExpectBound(ctx, append(pods, gated)...)
		})

		It(kind+" group is scheduled, then pod group is deleted, and new enqueued pods belong to it end up in incompletePodGroupPods", specTimeout, func(ctx SpecContext) {
			env := newTestEnv(ctx, 1, 4)
			group := env.podGroup(ctx, "pg1", minCount)
			admin.ExpectBound(ctx, env.members(ctx, "pg1", 0, 2)...)
			admin.Remove(ctx, group)
			env.waitForGroups(ctx)
			late := env.members(ctx, "pg1", 2, 1)
			expectGated(ctx, 1)
			env.podGroup(ctx, "pg1", minCount)
			admin.ExpectBound(ctx, late...)
		})
	}

	It("gang is unschedulable, then pod group is deleted, unschedulable pods end up in incompletePodGroupPods", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 1, 2)
		group := env.podGroup(ctx, "pg1", 3)
		pods := env.members(ctx, "pg1", 0, 3)
		expectWaiting(ctx, pods...)
		admin.Remove(ctx, group)
		expectGated(ctx, 3)
		env.podGroup(ctx, "pg1", 2)
		Eventually(boundOf(ctx, pods)).Should(Equal(2))
	})
})
