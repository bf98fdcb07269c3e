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

// waits asks every pod to wait.
func waits(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), time.Minute
}

var _ = Describe("A pod that two plugins ask to wait at Permit", func() {
	It("goes on when both allow it", minute, func(ctx SpecContext) {
		first.plays(role{permit: waits})
		second.plays(role{permit: waits})
		p := aProfile(ctx, at(permits, "First", "Second"))
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		wait := berth.Scheduler().Components().Waiting.Get(pod.UID)
		Expect(wait.GetPendingPlugins()).To(ConsistOf("First", "Second"))
		wait.Allow("First")
		Expect(wait.GetPendingPlugins()).To(ConsistOf("Second"))
		Expect(admin.Place(ctx, pod)(Default)).To(BeEmpty())
		wait.Allow("Second")
		admin.ExpectBound(ctx, pod)
	})

	It("is given up when one rejects it, and both can tell by their contexts", minute, func(ctx SpecContext) {
		var told sync.WaitGroup
		told.Add(2)
		wait := func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
			go func() {
				<-ctx.Done()
				told.Done()
			}()
			return waits(ctx, h, pod)
		}
		first.plays(role{permit: wait})
		second.plays(role{permit: wait})
		p := aProfile(ctx, at(permits, "First", "Second"))
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))
		berth.Scheduler().Components().Waiting.Get(pod.UID).Reject("First", "rejected by the scenario")
		expectRefused(ctx, pod)
		cancelled := make(chan struct{})
		go func() { told.Wait(); close(cancelled) }()
		Eventually(cancelled).Should(BeClosed())
	})
})

// together lets the pod that comes first wait for the second, which decides
// about both.
func together(decide func(h fwk.Handle) *fwk.Status) role {
	var mu sync.Mutex
	firstComer := ""
	return role{permit: func(_ context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if firstComer == "" || firstComer == pod.Name {
			firstComer = pod.Name
			return fwk.NewStatus(fwk.Wait), time.Minute
		}
		return decide(h), 0
	}}
}

var _ = Describe("Two pods of which the second decides at Permit about both", func() {
	It("are bound when it allows them", minute, func(ctx SpecContext) {
		first.plays(together(func(h fwk.Handle) *fwk.Status {
			h.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Allow("First") })
			return nil
		}))
		p := aProfile(ctx, at(permits, "First"))
		aNode(ctx, node("n"))
		bound(ctx, p, pod("a"), pod("b"))
	})

	It("are refused when it rejects them", minute, func(ctx SpecContext) {
		first.plays(together(func(h fwk.Handle) *fwk.Status {
			h.IterateOverWaitingPods(func(pod fwk.WaitingPod) { pod.Reject("First", "rejected with another") })
			return fwk.NewStatus(fwk.Unschedulable, "not together")
		}))
		p := aProfile(ctx, at(permits, "First"))
		aNode(ctx, node("n"))
		pods := []*v1.Pod{aPod(ctx, p, pod("a")), aPod(ctx, p, pod("b"))}
		expectRefused(ctx, pods...)
	})
})

// atPermitOf lets the pod of that name wait at Permit.
func atPermitOf(name string) role {
	return role{permit: func(ctx context.Context, h fwk.Handle, pod *v1.Pod) (*fwk.Status, time.Duration) {
		if pod.Name == name {
			return waits(ctx, h, pod)
		}
		return nil, 0
	}}
}

var _ = DescribeTable("A pod at Permit gives way, and is not deleted by us:",
	func(ctx SpecContext, running, waits, comes *fixture.PodBuilder, deleted bool) {
		first.plays(atPermitOf("waits"))
		p := aProfile(ctx, at(permits, "First"))
		aNode(ctx, node("n").Capacity("cpu", "500m"))
		var runs *v1.Pod
		if running != nil {
			runs = bound(ctx, p, running.Requests("cpu", "200m"))[0]
		}
		waiter := aPod(ctx, p, waits.Requests("cpu", "200m"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Waiting: 1}))

		comer := aPod(ctx, p, comes.Requests("cpu", "400m"))
		most := 2
		if deleted {
			expectRefused(ctx, comer)
			admin.Remove(ctx, waiter)
			most = 1
		}
		admin.ExpectBound(ctx, comer)
		Eventually(berth.Scheduler().Components().Waiting.Len).Should(BeZero())
		if deleted {
			gone(ctx, waiter)
		} else {
			expectRefused(ctx, waiter)
			Expect(waiter.DeletionTimestamp).To(BeNil())
		}
		if runs != nil {
			gone(ctx, runs)
		}
		Expect(attempts(p, waiter)()).To(BeNumerically("<=", most))
	},
	Entry("when one that matters more evicts others, too", minute, ranked("runs", "low"), ranked("waits", "middle"), ranked("comes", "high"), false),
	Entry("when one that matters more evicts it alone, and it is tried again", minute, nil, ranked("waits", "low"), ranked("comes", "high"), false),
	Entry("when its author deletes it, which wakes another", minute, nil, ranked("waits", "low"), ranked("comes", "low"), true),
)
