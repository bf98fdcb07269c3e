package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
)

var _ = Describe("Priorities", func() {
	It("order pods across two profiles", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		classes := priorities(ctx, 6, v1.PreemptNever)
		both := []*v1alpha1.SchedulingProfile{aProfile(ctx, neverFlushing), aProfile(ctx, neverFlushing)}
		expectReady(ctx, both[0])
		expectReady(ctx, both[1])
		aNode(ctx, y.node("n").Capacity("cpu", "3"))

		By("while the loop is held up by a pod of a third")
		third := aProfile(ctx, sluicedAt(atPreFilter))
		open := sluices.preFilter.close()
		defer open()
		aPod(ctx, y.pod(third, "slow"))
		Eventually(waiting(third)).Should(Equal(decision.QueueCounts{InFlight: 1}))
		pods := oneOfEach(ctx, y, classes, both)
		for _, p := range both {
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Active: 3}))
		}

		open()
		expectRoomForTheHighest(ctx, pods)
	})

	It("decide who gets the room when an event wakes pods of both", minute, func(ctx SpecContext) {
		y := aYard(ctx)
		classes := priorities(ctx, 6, v1.PreemptNever)
		both := []*v1alpha1.SchedulingProfile{aProfile(ctx, neverFlushing), aProfile(ctx, neverFlushing)}
		small := aNode(ctx, y.node("n").Capacity("cpu", "500m"))
		pods := oneOfEach(ctx, y, classes, both)
		expectHeld(ctx, v1.PodReasonUnschedulable, pods...)
		for _, p := range both {
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Unschedulable: 3}))
		}
		// Who still backs off when the event comes stands behind who does not.
		const backoff = 2 * time.Second
		Eventually(time.Since).WithArguments(time.Now()).Should(BeNumerically(">", backoff))

		small.Status = y.node("n").Capacity("cpu", "3").Obj().Status
		Expect(admin.Status().Update(ctx, small)).To(Succeed())
		expectRoomForTheHighest(ctx, pods)
	})
})

// priorities creates classes of priority 1, 2, 3, … and returns their names.
func priorities(ctx context.Context, n int, policy v1.PreemptionPolicy) []string {
	GinkgoHelper()
	var names []string
	for i := range n {
		class := apitest.Created(ctx, admin, &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{GenerateName: "class-"},
			Value:            int32(i + 1),
			PreemptionPolicy: &policy,
		})
		names = append(names, class.Name)
	}
	return names
}

// oneOfEach creates a pod of each class, for the profiles in turn, in an order
// that is not theirs; each wants a CPU.
func oneOfEach(ctx context.Context, y yard, classes []string, profiles []*v1alpha1.SchedulingProfile) []*v1.Pod {
	GinkgoHelper()
	pods := make([]*v1.Pod, len(classes))
	for _, i := range []int{2, 5, 0, 3, 1, 4} {
		pod := y.pod(profiles[i%2], fmt.Sprint("priority-", i+1)).Requests("cpu", "1")
		pods[i] = aPod(ctx, pod.Mutate(func(pod *v1.Pod) { pod.Spec.PriorityClassName = classes[i] }))
	}
	return pods
}

// expectRoomForTheHighest wants the upper half of pods bound, and the lower
// half refused.
func expectRoomForTheHighest(ctx context.Context, pods []*v1.Pod) {
	GinkgoHelper()
	half := len(pods) / 2
	admin.ExpectBound(ctx, pods[half:]...)
	expectHeld(ctx, v1.PodReasonUnschedulable, pods[:half]...)
}
