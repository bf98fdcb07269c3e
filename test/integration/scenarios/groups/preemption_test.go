package groups

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/apitest"
)

// Victims terminate slowly, and no kubelet ends them.
var _ = Describe("Preemption", func() {
	It("by a gang evicts as many pods as it needs, and the gang runs when they are gone", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2, 4)
		important := env.priorityClass(ctx)
		low := env.boundLow(ctx)
		group := env.importantGroup(ctx, "pg1", 3, important, nil)
		pods := env.importantMembers(ctx, "pg1", 3, important)
		Eventually(env.evicted(ctx, low)).Should(HaveLen(3), "six of eight CPUs")
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(group), group)).To(Succeed())
			g.Expect(group.Status.Conditions).To(ConsistOf(HaveField("Message", ContainSubstring("pod group preemption: "))))
		}).Should(Succeed())
		for _, pod := range pods {
			Eventually(admin.NominatedNode(ctx, pod)).ShouldNot(BeEmpty())
		}
		for _, name := range env.evicted(ctx, low)(Default) {
			admin.Remove(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}})
		}
		admin.ExpectBound(ctx, pods...)
		expectCondition(ctx, group, metav1.ConditionTrue, "Scheduled")
		Expect(env.evicted(ctx, low)(Default)).To(BeEmpty(), "the fourth pod stays")
	})

	It("evicts all pods of a group whose disruptionMode is all", specTimeout, func(ctx SpecContext) {
		env := newTestEnv(ctx, 2, 4)
		important := env.priorityClass(ctx)
		env.importantGroup(ctx, "victim", 2, "", &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}})
		var whole []*v1.Pod
		for i := range 2 {
			name := "victim"
			whole = append(whole, apitest.Created(ctx, admin, env.pod(fmt.Sprint("victim-", i), 3).Mutate(func(pod *v1.Pod) {
				pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
			}).Valid()))
		}
		admin.ExpectBound(ctx, whole...)
		high := admin.Pod(ctx, env.pod("high", 4).Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = important }))
		Eventually(env.evicted(ctx, whole)).Should(HaveLen(2), "although the pod needs one node")
		for _, pod := range whole {
			admin.Remove(ctx, pod)
		}
		admin.ExpectBound(ctx, high)
	})
})

// priorityClass creates a class above the default, and returns its name.
func (env testEnv) priorityClass(ctx context.Context) string {
	GinkgoHelper()
	class := apitest.Created(ctx, admin, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "important-"}, Value: 1000})
	DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, class)).To(Succeed()) }, NodeTimeout(eventuallyTimeout))
	admin.ExpectPriorityClass(ctx, env.namespace, class.Name)
	return class.Name
}

// importantGroup creates a gang with a priority class and a disruption mode.
func (env testEnv) importantGroup(ctx context.Context, name string, minCount int32, class string, mode *schedulingv1beta1.DisruptionMode) *schedulingv1beta1.PodGroup {
	GinkgoHelper()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: env.namespace, Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	group.Spec.PriorityClassName, group.Spec.DisruptionMode = class, mode
	return apitest.Created(ctx, admin, group)
}

// importantMembers creates members with two CPUs and a priority class.
func (env testEnv) importantMembers(ctx context.Context, group string, count int, class string) (pods []*v1.Pod) {
	GinkgoHelper()
	for i := range count {
		pods = append(pods, admin.Pod(ctx, env.pod(fmt.Sprint(group, "-", i), 2).Mutate(func(pod *v1.Pod) {
			pod.Spec.SchedulingGroup, pod.Spec.PriorityClassName = &v1.PodSchedulingGroup{PodGroupName: &group}, class
		})))
	}
	return pods
}

// boundLow creates four pods with two CPUs and no priority, and waits until they are bound.
func (env testEnv) boundLow(ctx context.Context) (pods []*v1.Pod) {
	GinkgoHelper()
	for i := range 4 {
		pods = append(pods, apitest.Created(ctx, admin, env.pod(fmt.Sprint("low-", i), 2).Valid()))
	}
	admin.ExpectBound(ctx, pods...)
	return pods
}

// evicted returns the names of those pods that a scheduler evicts.
func (env testEnv) evicted(ctx context.Context, pods []*v1.Pod) func(g Gomega) []string {
	return func(g Gomega) (names []string) {
		var list v1.PodList
		g.Expect(admin.List(ctx, &list, client.InNamespace(env.namespace))).To(Succeed())
		for _, pod := range list.Items {
			for _, candidate := range pods {
				if pod.UID != candidate.UID || pod.DeletionTimestamp == nil {
					continue
				}
				g.Expect(pod.Status.Conditions).To(ContainElement(And(
					HaveField("Type", v1.DisruptionTarget), HaveField("Reason", v1.PodReasonPreemptionByScheduler))))
				names = append(names, pod.Name)
			}
		}
		return names
	}
}
