package course

import (
	"context"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
)

// victims creates pods on n that have to go for anybody, each with so much CPU.
func victims(ctx context.Context, p *v1alpha1.SchedulingProfile, n int, cpu string) (all []*v1.Pod) {
	GinkgoHelper()
	for i := range n {
		all = append(all, aPod(ctx, p, ranked(fmt.Sprint("victim-", i), "low").Requests("cpu", cpu).On("n")))
	}
	ring(ctx)
	return all
}

// kept waits until evictions stand at theDoor, and wakes the pod for whose sake
// they are made, by a node that grows a little: it comes no further than to its
// gate.
func kept(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Eventually(theDoor.standing).ShouldNot(BeEmpty())
	Eventually(where(pod)).Should(Equal(queue.Unschedulable), pod.Name)
	n := &v1.Node{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "n"}, n)).To(Succeed())
	cpu := n.Status.Allocatable[v1.ResourceCPU]
	cpu.Add(resource.MustParse("1m"))
	n.Status.Allocatable[v1.ResourceCPU] = cpu
	Expect(admin.Status().Update(ctx, n)).To(Succeed())
	Eventually(where(pod)).Should(Equal(queue.Gated), pod.Name)
}

var _ = Describe("While the victims of a pod are being told to go,", func() {
	It("it is not tried, and gets their room when all are told", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		low := victims(ctx, p, 2, "2")
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
		kept(ctx, high)
		open()
		gone(ctx, low...)
		admin.ExpectBound(ctx, high)
	})

	It("if it is only one, it is not tried either", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		victims(ctx, p, 1, "1")
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
		kept(ctx, high)
		open()
		admin.ExpectBound(ctx, high)
	})

	It("one that matters less does not get its place", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		victims(ctx, p, 2, "2")
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
		kept(ctx, high)
		middle := aPod(ctx, p, ranked("middle", "middle").Requests("cpu", "4"))
		expectRefused(ctx, middle)
		open()
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, middle)
	})

	It("one that matters more takes its place", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		low := victims(ctx, p, 4, "1")
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
		kept(ctx, high)
		highest := aPod(ctx, p, ranked("highest", "highest").Requests("cpu", "4"))
		Eventually(promised(ctx, highest)).Should(Equal("n"))
		Eventually(promised(ctx, high)).Should(BeEmpty())
		open()
		admin.ExpectBound(ctx, highest)
		gone(ctx, low...)
		expectRefused(ctx, high)
	})

	It("one that matters less may share its node, where that is big enough", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		low := victims(ctx, p, 4, "1")
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "2"))
		kept(ctx, high)
		middle := aPod(ctx, p, ranked("middle", "middle").Requests("cpu", "2"))
		kept(ctx, middle)
		open()
		admin.ExpectBound(ctx, high, middle)
		gone(ctx, low...)
	})

	It("one that matters more takes the room that is free already, and it looks elsewhere", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		low := victims(ctx, p, 4, "1")
		open := theDoor.close("DELETE " + low[3].Name)
		middle := aPod(ctx, p, ranked("middle", "middle").Requests("cpu", "4"))
		gone(ctx, low[:3]...)
		Eventually(where(middle)).Should(Equal(queue.Gated))
		aNode(ctx, node("m").Capacity("cpu", "4"))
		var others []*v1.Pod
		for i := range 4 {
			others = append(others, aPod(ctx, p, ranked(fmt.Sprint("other-", i), "low").Requests("cpu", "1").On("m")))
		}
		ring(ctx)
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "2"))
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("n"))
		open()
		admin.ExpectBound(ctx, middle)
		Expect(middle.Spec.NodeName).To(Equal("m"))
		gone(ctx, others...)
	})
})

var _ = Describe("A pod whose victims the plugin that refused it does not mind", func() {
	It("gets their room when the last one leaves, and needs no flush", minute, func(ctx SpecContext) {
		var left atomic.Int32
		left.Store(2)
		first.plays(role{
			adds: func() { left.Add(1) }, removes: func() { left.Add(-1) },
			filter: func(*v1.Pod) *fwk.Status {
				if left.Load() > 0 {
					return fwk.NewStatus(fwk.Unschedulable, "taken")
				}
				return nil
			},
		})
		p := aProfile(ctx, at(preFilters, "First"), at(filters, "First"))
		aNode(ctx, node("n"))
		low := victims(ctx, p, 2, "1m")
		flushed := apitest.BoundAfterFlush(berth.Scheduler().Metrics())
		open := theDoor.close("DELETE victim")
		high := aPod(ctx, p, ranked("high", "high"))
		Eventually(theDoor.standing).ShouldNot(BeEmpty())
		left.Store(0)
		open()
		gone(ctx, low...)
		admin.ExpectBound(ctx, high)
		Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(Equal(flushed))
	})
})
