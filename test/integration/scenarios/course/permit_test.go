package course

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/fixture"
)

// permitWait lets every pod wait.
func permitWait(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), time.Minute
}

var _ = Describe("A pod for which two plugins return Wait at Permit", func() {
	It("is bound when both allow it", minute, func(ctx SpecContext) {
		first.setFuncs(pluginFuncs{permit: permitWait})
		second.setFuncs(pluginFuncs{permit: permitWait})
		p := createProfile(ctx, enableAt(permitSet, "First", "Second"))
		createNode(ctx, node("n"))
		pod := createPod(ctx, p, pod("a"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		wait := berth.Scheduler().Components().Waiting.Get(pod.UID)
		Expect(wait.GetPendingPlugins()).To(ConsistOf("First", "Second"))
		wait.Allow("First")
		Expect(wait.GetPendingPlugins()).To(ConsistOf("Second"))
		Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
		wait.Allow("Second")
		admin.ExpectBound(ctx, pod)
	})

	It("is rejected when one rejects it, and the contexts of both are cancelled", minute, func(ctx SpecContext) {
		var contexts sync.WaitGroup
		contexts.Add(2)
		wait := func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
			go func() {
				<-ctx.Done()
				contexts.Done()
			}()
			return permitWait(ctx, h, pod)
		}
		first.setFuncs(pluginFuncs{permit: wait})
		second.setFuncs(pluginFuncs{permit: wait})
		p := createProfile(ctx, enableAt(permitSet, "First", "Second"))
		createNode(ctx, node("n"))
		pod := createPod(ctx, p, pod("a"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		berth.Scheduler().Components().Waiting.Get(pod.UID).Reject("First", "rejected by the spec")
		expectRefused(ctx, pod)
		cancelled := make(chan struct{})
		go func() { contexts.Wait(); close(cancelled) }()
		Eventually(cancelled).Should(BeClosed())
	})
})

// decideTogether lets the first pod wait, and calls decide for the second.
func decideTogether(decide func(h fwk.Handle) *fwk.Status) pluginFuncs {
	var mu sync.Mutex
	firstPod := ""
	return pluginFuncs{permit: func(_ context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if firstPod == "" || firstPod == pod.Name {
			firstPod = pod.Name
			return fwk.NewStatus(fwk.Wait), time.Minute
		}
		return decide(h), 0
	}}
}

var _ = Describe("Two pods of which the second decides at Permit about both", func() {
	It("are bound when it allows them", minute, func(ctx SpecContext) {
		first.setFuncs(decideTogether(func(h fwk.Handle) *fwk.Status {
			h.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Allow("First") })
			return nil
		}))
		p := createProfile(ctx, enableAt(permitSet, "First"))
		createNode(ctx, node("n"))
		createBound(ctx, p, pod("a"), pod("b"))
	})

	It("are unschedulable when it rejects them", minute, func(ctx SpecContext) {
		first.setFuncs(decideTogether(func(h fwk.Handle) *fwk.Status {
			h.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Reject("First", "rejected with another") })
			return fwk.NewStatus(fwk.Unschedulable, "not together")
		}))
		p := createProfile(ctx, enableAt(permitSet, "First"))
		createNode(ctx, node("n"))
		pods := []*v1.Pod{createPod(ctx, p, pod("a")), createPod(ctx, p, pod("b"))}
		expectRefused(ctx, pods...)
	})
})

// waitAtPermit lets the pod of this name wait.
func waitAtPermit(name string) pluginFuncs {
	return pluginFuncs{permit: func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
		if pod.Name == name {
			return permitWait(ctx, h, pod)
		}
		return nil, 0
	}}
}

var _ = DescribeTable("A pod that waits on Permit",
	func(ctx SpecContext, running, pending, created *fixture.PodBuilder, deleted bool) {
		first.setFuncs(waitAtPermit("pending"))
		p := createProfile(ctx, enableAt(permitSet, "First"))
		createNode(ctx, node("n").Capacity("cpu", "500m"))
		var runs *v1.Pod
		if running != nil {
			runs = createBound(ctx, p, running.Requests("cpu", "200m"))[0]
		}
		waiter := createPod(ctx, p, pending.Requests("cpu", "200m"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))

		newPod := createPod(ctx, p, created.Requests("cpu", "400m"))
		most := 2
		if deleted {
			expectRefused(ctx, newPod)
			admin.Remove(ctx, waiter)
			most = 1
		}
		admin.ExpectBound(ctx, newPod)
		Eventually(func() int { return berth.Scheduler().QueueCounts(p.Name).Waiting }).Should(BeZero())
		if deleted {
			expectGone(ctx, waiter)
		} else {
			expectRefused(ctx, waiter)
			Expect(waiter.DeletionTimestamp).To(BeNil())
		}
		if runs != nil {
			expectGone(ctx, runs)
		}
		Expect(attempts(p, waiter)()).To(BeNumerically("<=", most))
	},
	Entry("is preempted, and not deleted, together with others", minute, podWithClass("runs", "low"), podWithClass("pending", "middle"), podWithClass("created", "high"), false),
	Entry("is preempted, and not deleted, alone, and tried again", minute, nil, podWithClass("pending", "low"), podWithClass("created", "high"), false),
	Entry("is deleted by its author, which requeues another pod", minute, nil, podWithClass("pending", "low"), podWithClass("created", "low"), true),
)
