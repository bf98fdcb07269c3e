package course

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/fixture"
)

// stuck lets the Binding of the pod called victim wait until it is released.
func stuck(released <-chan struct{}) role {
	return role{bind: func(ctx context.Context, _ fwk.Handle, pod *v1.Pod, _ string) *fwk.Status {
		if pod.Name == "victim" {
			select {
			case <-released:
			case <-ctx.Done():
			}
		}
		return fwk.NewStatus(fwk.Skip)
	}}
}

var _ = Describe("A victim whose Bind is stuck", func() {
	stuckAtBind := []edit{without(binds, "DefaultBinder"), at(binds, "First", "DefaultBinder")}

	for grace, seconds := range map[string]int64{"without grace": 0, "with a long one": 1000} {
		ofVictim := func() *fixture.PodBuilder {
			return ranked("victim", "low").Requests("cpu", "2").Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds })
		}

		It("makes room although it is not released, "+grace, minute, func(ctx SpecContext) {
			released := make(chan struct{})
			first.plays(stuck(released))
			p := aProfile(ctx, stuckAtBind...)
			aNode(ctx, node("n").Capacity("cpu", "4"))
			victim := aPod(ctx, p, ofVictim())
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
			high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
			admin.ExpectBound(ctx, high)
			close(released)
			gone(ctx, victim)
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{}))
		})

		It("makes room when it is released, where a plugin keeps something for it until then, "+grace, minute, func(ctx SpecContext) {
			released := make(chan struct{})
			var reserved, leaves atomic.Bool
			first.plays(stuck(released))
			second.plays(role{
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
			p := aProfile(ctx, append(stuckAtBind, at(reserves, "Second"), at(filters, "Second"))...)
			aNode(ctx, node("n").Capacity("cpu", "4"))
			victim := aPod(ctx, p, ofVictim())
			Eventually(waiting(p)).Should(Equal(decision.QueueCounts{InFlight: 1}))
			open := theDoor.close("DELETE victim")
			high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
			kept(ctx, high)
			leaves.Store(true)
			open()
			gone(ctx, victim)
			Eventually(admin.Standing(ctx, high)).Should(ContainSubstring("reserved"))
			Expect(high.Spec.NodeName).To(BeEmpty())
			close(released)
			admin.ExpectBound(ctx, high)
		})
	}
})

// onItsWay holds the pod called victim up at a point, the first time.
func onItsWay(point string) role {
	var held atomic.Bool
	holds := func(pod *v1.Pod) bool { return pod.Name == "victim" && held.CompareAndSwap(false, true) }
	if point == "Permit" {
		return role{permit: func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
			if holds(pod) {
				return waits(ctx, h, pod)
			}
			return nil, 0
		}}
	}
	return role{preBind: func(ctx context.Context, pod *v1.Pod) *fwk.Status {
		if holds(pod) {
			<-ctx.Done()
			return fwk.AsStatus(context.Cause(ctx))
		}
		return nil
	}}
}

var _ = DescribeTable("A victim that is on its way only is not deleted, and goes elsewhere:",
	func(ctx SpecContext, point string, edit edit, where decision.QueueCounts) {
		first.plays(onItsWay(point))
		p := aProfile(ctx, edit, backingOff(1))
		aNode(ctx, node("big").Capacity("cpu", "2"))
		victim := aPod(ctx, p, ranked("victim", "low").Requests("cpu", "1"))
		Eventually(waiting(p)).Should(Equal(where))
		aNode(ctx, node("small").Capacity("cpu", "1"))
		ring(ctx)
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "1500m"))
		admin.ExpectBound(ctx, high, victim)
		Expect([]string{high.Spec.NodeName, victim.Spec.NodeName}).To(Equal([]string{"big", "small"}))
		Expect(victim.DeletionTimestamp).To(BeNil())
	},
	Entry("at Permit", minute, "Permit", at(permits, "First"), decision.QueueCounts{Waiting: 1}),
	Entry("in PreBind", minute, "PreBind", at(preBinds, "First"), decision.QueueCounts{InFlight: 1}),
)
