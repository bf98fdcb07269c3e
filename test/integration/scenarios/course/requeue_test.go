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

// onNodeAdd is the event that requeues the pods of the plugins below.
var onNodeAdd = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}}}

// once returns the status the first time, and Success from then on.
func once(status *fwk.Status) func() *fwk.Status {
	var calls atomic.Int32
	return func() *fwk.Status {
		if calls.Add(1) == 1 {
			return status
		}
		return nil
	}
}

var _ = Describe("A pod that fails after a node was chosen,", func() {
	refusal := func() *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, "not now") }
	failure := func() *fwk.Status { return fwk.NewStatus(fwk.Error, "broken") }
	reserving := func(answer func() *fwk.Status) pluginFuncs {
		return pluginFuncs{events: onNodeAdd, reserve: func(*v1.Pod) *fwk.Status { return answer() }}
	}
	permitting := func(answer func() *fwk.Status) pluginFuncs {
		return pluginFuncs{events: onNodeAdd, permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
			return answer(), 0
		}}
	}
	for point, r := range map[string]struct {
		edit  edit
		funcs func(answer func() *fwk.Status) pluginFuncs
	}{
		"Reserve": {enableAt(reserveSet, "First"), reserving},
		"Permit":  {enableAt(permitSet, "First"), permitting},
	} {
		It("rejected at "+point+", is not requeued by other events, and is requeued by the registered event", minute, func(ctx SpecContext) {
			first.setFuncs(r.funcs(once(refusal())))
			p := createProfile(ctx, r.edit)
			createNode(ctx, node("n"))
			pod := createPod(ctx, p, pod("a"))
			expectRefused(ctx, pod)
			Expect(attempts(p, pod)()).To(Equal(1))

			By("another pod is created")
			createPod(ctx, sentinelProfile, fixture.Pod(namespace+"/other").On("n"))
			waitForQueue(ctx)
			Expect(queuePlace(pod)()).To(Equal(queue.Unschedulable))
			Expect(attempts(p, pod)()).To(Equal(1))

			By("a node is created")
			createNode(ctx, node("m"))
			admin.ExpectBound(ctx, pod)
			Eventually(attempts(p, pod)).Should(Equal(2))
		})

		It("failed at "+point+", is tried again without an event, and fails again", minute, func(ctx SpecContext) {
			first.setFuncs(r.funcs(failure))
			p := createProfile(ctx, r.edit, setBackoff(1))
			createNode(ctx, node("n"))
			pod := createPod(ctx, p, pod("a"))
			Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False SchedulerError"))
			Eventually(attempts(p, pod)).Should(BeNumerically(">=", 2))
			Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False SchedulerError"))
			Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
		})
	}

	for what, code := range map[string]fwk.Code{"rejected": fwk.Unschedulable, "failed": fwk.Error} {
		It(what+" at Bind, is tried again without an event", minute, func(ctx SpecContext) {
			answer := once(fwk.NewStatus(code, "broken"))
			first.setFuncs(pluginFuncs{bind: func(context.Context, fwk.Handle, *v1.Pod, string) *fwk.Status {
				if s := answer(); s != nil {
					return s
				}
				return fwk.NewStatus(fwk.Skip)
			}})
			p := createProfile(ctx, disableAt(bindSet, "DefaultBinder"), enableAt(bindSet, "First", "DefaultBinder"), setBackoff(1))
			createNode(ctx, node("n"))
			pod := createPod(ctx, p, pod("a"))
			admin.ExpectBound(ctx, pod)
			Eventually(attempts(p, pod)).Should(Equal(2))
		})
	}

	It("rejected while it waits on Permit, is requeued by an earlier event, for which the hint is called once", minute, func(ctx SpecContext) {
		var hintCalls atomic.Int32
		first.setFuncs(pluginFuncs{
			permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
				return fwk.NewStatus(fwk.Wait), time.Minute
			},
			events: []fwk.ClusterEventWithHint{{
				Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel},
				QueueingHintFn: func(klog.Logger, *v1.Pod, any, any) (fwk.QueueingHint, error) {
					hintCalls.Add(1)
					return fwk.Queue, nil
				},
			}},
		})
		p := createProfile(ctx, enableAt(permitSet, "First"))
		n := createNode(ctx, node("n"))
		pods := []*v1.Pod{createPod(ctx, p, pod("one"))}
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		apitest.Change(ctx, admin, n, func(node *v1.Node) { node.Labels["new"] = "label" })
		waitForQueue(ctx)
		pods = append(pods, createPod(ctx, p, pod("two")))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 2}))

		waiting := berth.Scheduler().Components().Waiting
		waiting.Get(pods[0].UID).Reject("First", "rejected by the spec")
		waiting.Get(pods[1].UID).Allow("First")
		admin.ExpectBound(ctx, pods[1])
		Eventually(attempts(p, pods[0])).Should(Equal(1))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}), "it waits on Permit again")
		Expect(hintCalls.Load()).To(BeEquivalentTo(1))
		waiting.Get(pods[0].UID).Allow("First")
		admin.ExpectBound(ctx, pods[0])
		Eventually(attempts(p, pods[0])).Should(Equal(2))
	})
})

var _ = Describe("A pod that backs off", func() {
	It("is tried before its backoff ends when no other pod is active", minute, func(ctx SpecContext) {
		p := createProfile(ctx, setBackoff(1000))
		createNode(ctx, node("n"))
		pod := createPod(ctx, p, pod("a").NodeSelector("group", "b"))
		expectRefused(ctx, pod)
		release := stopLoop(ctx)
		createNode(ctx, node("m").Label("group", "b"))
		Eventually(queuePlace(pod)).Should(Equal(queue.Backoff))
		release()
		admin.ExpectBound(ctx, pod)
		Eventually(attempts(p, pod)).Should(Equal(2))
	})
})

// gateCase is three pods, some with a scheduling gate, of which some lose it.
type gateCase struct {
	gated, free, leaves, opened []string
}

var _ = DescribeTable("Of pods with scheduling gates and without,",
	func(ctx SpecContext, g gateCase) {
		p := createProfile(ctx)
		createNode(ctx, node("n"))
		all := map[string]*v1.Pod{}
		for _, name := range g.gated {
			all[name] = createPod(ctx, p, pod(name).SchedulingGate("example.com/"+name))
		}
		for _, name := range g.free {
			all[name] = createPod(ctx, p, pod(name))
			admin.ExpectBound(ctx, all[name])
		}
		for _, name := range g.leaves {
			admin.Remove(ctx, all[name])
		}
		waitForQueue(ctx)
		Expect(queueCounts(p)()).To(Equal(decision.QueueCounts{Gated: len(g.gated)}), "no event releases a gated pod")
		for _, name := range g.opened {
			apitest.Change(ctx, admin, all[name], func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
			admin.ExpectBound(ctx, all[name])
		}
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Gated: len(g.gated) - len(g.opened)}))
	},
	Entry("those without are bound", minute, gateCase{free: []string{"a", "b"}}),
	Entry("those with a gate are held", minute, gateCase{gated: []string{"a"}, free: []string{"b"}}),
	Entry("those whose gate is removed are bound, and others are held", minute,
		gateCase{gated: []string{"a", "b"}, free: []string{"c"}, opened: []string{"b"}}),
	Entry("none is released when a pod is deleted, and each when its gate is removed", minute,
		gateCase{gated: []string{"a"}, free: []string{"b"}, leaves: []string{"b"}, opened: []string{"a"}}),
)
