package course

import (
	"context"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

// whenANodeComes is what the actors below are woken by.
var whenANodeComes = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}

// once answers with status the first time, and with success from then on.
func once(status *fwk.Status) func() *fwk.Status {
	var asked atomic.Int32
	return func() *fwk.Status {
		if asked.Add(1) == 1 {
			return status
		}
		return nil
	}
}

var _ = Describe("A pod whose way ends after a node was chosen,", func() {
	refusal := func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "not now") }
	failure := func() *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }
	reserving := func(answer func() *fwk.Status) role {
		return role{events: whenANodeComes, reserve: func(*v1.Pod) *fwk.Status { return answer() }}
	}
	permitting := func(answer func() *fwk.Status) role {
		return role{events: whenANodeComes, permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
			return answer(), 0
		}}
	}
	for point, r := range map[string]struct {
		edit edit
		role func(answer func() *fwk.Status) role
	}{
		"Reserve": {at(reserves, "First"), reserving},
		"Permit":  {at(permits, "First"), permitting},
	} {
		It("refused at "+point+", sleeps through what its plugin did not register for, and wakes by what it did", minute, func(ctx SpecContext) {
			first.plays(r.role(once(refusal())))
			p := aProfile(ctx, r.edit)
			aNode(ctx, node("n"))
			pod := aPod(ctx, p, pod("a"))
			expectRefused(ctx, pod)
			Expect(attempts(p, pod)()).To(Equal(1))

			By("another pod comes")
			aPod(ctx, stagehands, fixture.Pod(scene+"/other").On("n"))
			ring(ctx)
			Expect(where(pod)()).To(Equal(queue.Unschedulable))
			Expect(attempts(p, pod)()).To(Equal(1))

			By("a node comes")
			aNode(ctx, node("m"))
			admin.ExpectBound(ctx, pod)
			Eventually(attempts(p, pod)).Should(Equal(2))
		})

		It("failed at "+point+", is tried again without an event, and fails for as long as that does", minute, func(ctx SpecContext) {
			first.plays(r.role(failure))
			p := aProfile(ctx, r.edit, backingOff(1))
			aNode(ctx, node("n"))
			pod := aPod(ctx, p, pod("a"))
			Eventually(admin.Standing(ctx, pod)).Should(HavePrefix("False SchedulerError"))
			Eventually(attempts(p, pod)).Should(BeNumerically(">=", 2))
			Eventually(admin.Standing(ctx, pod)).Should(HavePrefix("False SchedulerError"))
			Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
		})
	}

	It("failed at Bind, is tried again without an event", minute, func(ctx SpecContext) {
		answer := once(failure())
		first.plays(role{bind: func(context.Context, fwk.Handle, *v1.Pod, string) *fwk.Status {
			if s := answer(); s != nil {
				// Whatever an answer leaves open is settled at once: see
				// test/integration's Bindings. A pod that is refused here is not.
				return fwk.NewStatus(fwk.Unschedulable, s.Message())
			}
			return fwk.NewStatus(fwk.Skip)
		}})
		p := aProfile(ctx, without(binds, "DefaultBinder"), at(binds, "First", "DefaultBinder"), backingOff(1))
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a"))
		admin.ExpectBound(ctx, pod)
		Eventually(attempts(p, pod)).Should(Equal(2))
	})

	It("whose Bind plugin reports an error and bound nothing, is bound again at once, in the same attempt", minute, func(ctx SpecContext) {
		answer := once(failure())
		first.plays(role{bind: func(context.Context, fwk.Handle, *v1.Pod, string) *fwk.Status {
			if s := answer(); s != nil {
				return s
			}
			return fwk.NewStatus(fwk.Skip)
		}})
		p := aProfile(ctx, without(binds, "DefaultBinder"), at(binds, "First", "DefaultBinder"))
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a"))
		admin.ExpectBound(ctx, pod)
		Eventually(attempts(p, pod)).Should(Equal(1))
	})

	It("rejected while it waits at Permit, wakes by what came meanwhile, of which its plugin is asked once", minute, func(ctx SpecContext) {
		var asked atomic.Int32
		first.plays(role{
			permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
				return fwk.NewStatus(fwk.Wait), time.Minute
			},
			events: []fwk.ClusterEventWithHint{{
				Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
				QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
					asked.Add(1)
					return fwk.Queue, nil
				},
			}},
		})
		p := aProfile(ctx, at(permits, "First"))
		n := aNode(ctx, node("n"))
		pods := []*v1.Pod{aPod(ctx, p, pod("one"))}
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		apitest.Change(ctx, admin, n, func(node *v1.Node) { node.Labels["new"] = "label" })
		ring(ctx)
		pods = append(pods, aPod(ctx, p, pod("two")))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 2}))

		waits := berth.Scheduler().Components().Waiting
		waits.Get(pods[0].UID).Reject("First", "rejected by the scenario")
		waits.Get(pods[1].UID).Allow("First")
		admin.ExpectBound(ctx, pods[1])
		Eventually(attempts(p, pods[0])).Should(Equal(1))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}), "it is at Permit again")
		Expect(asked.Load()).To(BeEquivalentTo(1))
		waits.Get(pods[0].UID).Allow("First")
		admin.ExpectBound(ctx, pods[0])
		Eventually(attempts(p, pods[0])).Should(Equal(2))
	})
})

var _ = Describe("A pod that backs off", func() {
	It("is tried before its time as soon as nobody else is to be tried", minute, func(ctx SpecContext) {
		p := aProfile(ctx, backingOff(1000))
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a").NodeSelector("group", "b"))
		expectRefused(ctx, pod)
		release := stopLoop(ctx)
		aNode(ctx, node("m").Label("group", "b"))
		Eventually(where(pod)).Should(Equal(queue.Backoff))
		release()
		admin.ExpectBound(ctx, pod)
		Eventually(attempts(p, pod)).Should(Equal(2))
	})
})

// gated is a scenario: some of three pods have a gate, and some lose it.
type gated struct {
	gated, free, leaves, opened []string
}

var _ = DescribeTable("Of pods with scheduling gates and without,",
	func(ctx SpecContext, g gated) {
		p := aProfile(ctx)
		aNode(ctx, node("n"))
		all := map[string]*v1.Pod{}
		for _, name := range g.gated {
			all[name] = aPod(ctx, p, pod(name).SchedulingGate("example.com/"+name))
		}
		for _, name := range g.free {
			all[name] = aPod(ctx, p, pod(name))
			admin.ExpectBound(ctx, all[name])
		}
		for _, name := range g.leaves {
			admin.Remove(ctx, all[name])
		}
		ring(ctx)
		Expect(waiting(p)()).To(Equal(decision.QueueCounts{Gated: len(g.gated)}), "no event opens a gate")
		for _, name := range g.opened {
			apitest.Change(ctx, admin, all[name], func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
			admin.ExpectBound(ctx, all[name])
		}
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Gated: len(g.gated) - len(g.opened)}))
	},
	Entry("those without are bound", minute, gated{free: []string{"a", "b"}}),
	Entry("those with one wait", minute, gated{gated: []string{"a"}, free: []string{"b"}}),
	Entry("those that lose theirs are bound, and others wait on", minute,
		gated{gated: []string{"a", "b"}, free: []string{"c"}, opened: []string{"b"}}),
	Entry("none is let in because a pod leaves, and each when its gate goes", minute,
		gated{gated: []string{"a"}, free: []string{"b"}, leaves: []string{"b"}, opened: []string{"a"}}),
)
