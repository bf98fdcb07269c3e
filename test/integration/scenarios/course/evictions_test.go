package course

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// createVictims creates pods on n that any pod may preempt, each with this CPU.
func createVictims(ctx context.Context, p *v1alpha1.SchedulingProfile, n int, cpu string) (all []*v1.Pod) {
	GinkgoHelper()
	for i := range n {
		all = append(all, createPod(ctx, p, podWithClass(fmt.Sprint("victim-", i), "low").Requests("cpu", cpu).On("n")))
	}
	waitForQueue(ctx)
	return all
}

// expectGated waits until an eviction of the preemptor is blocked at writeGate, and updates
// the node, which requeues the preemptor: it gets as far as PreEnqueue.
func expectGated(ctx context.Context, pod *v1.Pod) {
	GinkgoHelper()
	Eventually(writeGate.blocked).ShouldNot(BeEmpty())
	Eventually(queuePlace(pod)).Should(Equal(queue.Unschedulable), pod.Name)
	n := &v1.Node{}
	Expect(admin.Get(ctx, client.ObjectKey{Name: "n"}, n)).To(Succeed())
	cpu := n.Status.Allocatable[v1.ResourceCPU]
	cpu.Add(resource.MustParse("1m"))
	n.Status.Allocatable[v1.ResourceCPU] = cpu
	Expect(admin.Status().Update(ctx, n)).To(Succeed())
	Eventually(queuePlace(pod)).Should(Equal(queue.Gated), pod.Name)
}

var _ = Describe("While the victims of a pod are being evicted,", func() {
	It("it is gated, and is bound when all are evicted", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		low := createVictims(ctx, p, 2, "2")
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
		expectGated(ctx, high)
		open()
		expectGone(ctx, low...)
		admin.ExpectBound(ctx, high)
	})

	It("it is gated when there is only one victim", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		createVictims(ctx, p, 1, "1")
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
		expectGated(ctx, high)
		open()
		admin.ExpectBound(ctx, high)
	})

	It("a pod of lower priority does not get its nominated node", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		createVictims(ctx, p, 2, "2")
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
		expectGated(ctx, high)
		middle := createPod(ctx, p, podWithClass("middle", "middle").Requests("cpu", "4"))
		expectRefused(ctx, middle)
		open()
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, middle)
	})

	It("a pod of higher priority gets its nominated node", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		low := createVictims(ctx, p, 4, "1")
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
		expectGated(ctx, high)
		highest := createPod(ctx, p, podWithClass("highest", "highest").Requests("cpu", "4"))
		Eventually(admin.NominatedNode(ctx, highest)).Should(Equal("n"))
		Eventually(admin.NominatedNode(ctx, high)).Should(BeEmpty())
		open()
		admin.ExpectBound(ctx, highest)
		expectGone(ctx, low...)
		expectRefused(ctx, high)
	})

	It("a pod of lower priority may be nominated for the same node, when that is large enough", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		low := createVictims(ctx, p, 4, "1")
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "2"))
		expectGated(ctx, high)
		middle := createPod(ctx, p, podWithClass("middle", "middle").Requests("cpu", "2"))
		expectGated(ctx, middle)
		open()
		admin.ExpectBound(ctx, high, middle)
		expectGone(ctx, low...)
	})

	It("a pod of higher priority takes free resources there, and the preemptor is nominated elsewhere", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		low := createVictims(ctx, p, 4, "1")
		open := writeGate.block("DELETE " + low[3].Name)
		middle := createPod(ctx, p, podWithClass("middle", "middle").Requests("cpu", "4"))
		expectGone(ctx, low[:3]...)
		Eventually(queuePlace(middle)).Should(Equal(queue.Gated))
		createNode(ctx, node("m").Capacity("cpu", "4"))
		var others []*v1.Pod
		for i := range 4 {
			others = append(others, createPod(ctx, p, podWithClass(fmt.Sprint("other-", i), "low").Requests("cpu", "1").On("m")))
		}
		waitForQueue(ctx)
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "2"))
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("n"))
		open()
		admin.ExpectBound(ctx, middle)
		Expect(middle.Spec.NodeName).To(Equal("m"))
		expectGone(ctx, others...)
	})
})

var _ = Describe("A pod whose victims do not concern the plugin that rejected it", func() {
	It("is bound when the last one is deleted, without a flush", minute, func(ctx SpecContext) {
		var left atomic.Int32
		left.Store(2)
		first.setFuncs(pluginFuncs{
			addPod: func() { left.Add(1) }, removePod: func() { left.Add(-1) },
			filter: func(*v1.Pod) *fwk.Status {
				if left.Load() > 0 {
					return fwk.NewStatus(fwk.Unschedulable, "taken")
				}
				return nil
			},
		})
		p := createProfile(ctx, enableAt(preFilterSet, "First"), enableAt(filterSet, "First"))
		createNode(ctx, node("n"))
		low := createVictims(ctx, p, 2, "1m")
		flushed := apitest.BoundAfterFlush(berth.Scheduler().Metrics())
		open := writeGate.block("DELETE victim")
		high := createPod(ctx, p, podWithClass("high", "high"))
		Eventually(writeGate.blocked).ShouldNot(BeEmpty())
		left.Store(0)
		open()
		expectGone(ctx, low...)
		admin.ExpectBound(ctx, high)
		Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(Equal(flushed))
	})
})

// blockBind blocks Bind of the pod called victim until released is closed.
func blockBind(released <-chan struct{}) pluginFuncs {
	return pluginFuncs{bind: func(ctx context.Context, _ fwk.Handle, pod *v1.Pod, _ string) *fwk.Status {
		if pod.Name == "victim" {
			select {
			case <-released:
			case <-ctx.Done():
			}
		}
		return fwk.NewStatus(fwk.Skip)
	}}
}

var _ = Describe("A victim whose Bind is blocked", func() {
	stuckAtBind := []edit{disableAt(bindSet, "DefaultBinder"), enableAt(bindSet, "First", "DefaultBinder")}

	for grace, seconds := range map[string]int64{"without grace period": 0, "with a long grace period": 1000} {
		ofVictim := func() *fixture.PodBuilder {
			return podWithClass("victim", "low").Requests("cpu", "2").Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds })
		}

		It("is evicted before its Bind returns, "+grace, minute, func(ctx SpecContext) {
			released := make(chan struct{})
			first.setFuncs(blockBind(released))
			p := createProfile(ctx, stuckAtBind...)
			createNode(ctx, node("n").Capacity("cpu", "4"))
			victim := createPod(ctx, p, ofVictim())
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
			high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
			admin.ExpectBound(ctx, high)
			close(released)
			expectGone(ctx, victim)
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{}))
		})

		It("is evicted, and the preemptor is bound when Bind has returned and the plugin has unreserved the victim, "+grace, minute, func(ctx SpecContext) {
			released := make(chan struct{})
			var reserved, leaves atomic.Bool
			first.setFuncs(blockBind(released))
			second.setFuncs(pluginFuncs{
				reserve: func(pod *v1.Pod) *fwk.Status {
					if pod.Name == "victim" {
						reserved.Store(true)
					}
					return nil
				},
				unreserve: func(*v1.Pod) { reserved.Store(false) },
				filter: func(*v1.Pod) *fwk.Status {
					if leaves.Load() && reserved.Load() {
						return fwk.NewStatus(fwk.Unschedulable, "reserved")
					}
					return nil
				},
				events: []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}},
			})
			p := createProfile(ctx, append(stuckAtBind, enableAt(reserveSet, "Second"), enableAt(filterSet, "Second"))...)
			createNode(ctx, node("n").Capacity("cpu", "4"))
			victim := createPod(ctx, p, ofVictim())
			Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
			open := writeGate.block("DELETE victim")
			high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
			expectGated(ctx, high)
			leaves.Store(true)
			open()
			expectGone(ctx, victim)
			Eventually(admin.PodScheduled(ctx, high)).Should(ContainSubstring("reserved"))
			Expect(high.Spec.NodeName).To(BeEmpty())
			close(released)
			admin.ExpectBound(ctx, high)
		})
	}
})

// blockOnce blocks the pod called victim at a point, the first time. held is true from then on.
func blockOnce(point string) (funcs pluginFuncs, held *atomic.Bool) {
	held = new(atomic.Bool)
	holds := func(pod *v1.Pod) bool { return pod.Name == "victim" && held.CompareAndSwap(false, true) }
	if point == "Permit" {
		return pluginFuncs{permit: func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
			if holds(pod) {
				return permitWait(ctx, h, pod)
			}
			return nil, 0
		}}, held
	}
	return pluginFuncs{preBind: func(ctx context.Context, pod *v1.Pod) *fwk.Status {
		if holds(pod) {
			<-ctx.Done()
			return fwk.AsStatus(context.Cause(ctx))
		}
		return nil
	}}, held
}

var _ = DescribeTable("A victim that is not bound yet is not deleted, and goes to another node:",
	func(ctx SpecContext, point string, edit edit, where decision.QueueCounts) {
		funcs, held := blockOnce(point)
		first.setFuncs(funcs)
		p := createProfile(ctx, edit, setBackoff(1))
		createNode(ctx, node("big").Capacity("cpu", "2"))
		victim := createPod(ctx, p, podWithClass("victim", "low").Requests("cpu", "1"))
		Eventually(queueCounts(p)).Should(Equal(where))
		Eventually(held.Load).Should(BeTrue()) // InFlight is true before PreBind
		createNode(ctx, node("small").Capacity("cpu", "1"))
		waitForQueue(ctx)
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "1500m"))
		admin.ExpectBound(ctx, high, victim)
		Expect([]string{high.Spec.NodeName, victim.Spec.NodeName}).To(Equal([]string{"big", "small"}))
		Expect(victim.DeletionTimestamp).To(BeNil())
	},
	Entry("at Permit", minute, "Permit", enableAt(permitSet, "First"), decision.QueueCounts{Waiting: 1}),
	Entry("in PreBind", minute, "PreBind", enableAt(preBindSet, "First"), decision.QueueCounts{InFlight: 1}),
)
