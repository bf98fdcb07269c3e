package course

import (
	"context"
	"errors"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/fixture"
	"github.com/berthdev/berth/test/support/operator"
)

// slowlyTerminating returns a pod that terminates until the spec removes it.
func slowlyTerminating(name, class string) *fixture.PodBuilder {
	return podWithClass(name, class).Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(1000)) })
}

// nominationCase is a pod, middle, that is nominated for a node at the expense of the low
// pods, and the end of its nomination.
type nominationCase struct {
	nodes nodes
	low   pods
	edits []edit
	// middle is nominated for n.
	middle *fixture.PodBuilder
	// end ends the nomination; the low pods are removed after it.
	end func(ctx context.Context, p *v1alpha1.SchedulingProfile)
}

var _ = DescribeTable("The nomination of a pod is cleared",
	func(ctx SpecContext, s nominationCase) {
		first.setFuncs(pluginFuncs{preBind: func(_ context.Context, pod *v1.Pod) *fwk.Status {
			if pod.Name == "middle" {
				return fwk.NewStatus(fwk.Unschedulable, "not this one")
			}
			return nil
		}})
		// With a long backoff the condition can be read between two attempts.
		p := createProfile(ctx, append(s.edits, setBackoff(1000))...)
		for _, node := range s.nodes {
			createNode(ctx, node)
		}
		low := createBound(ctx, p, s.low...)
		middle := createPod(ctx, p, s.middle)
		Eventually(admin.NominatedNode(ctx, middle)).Should(Equal("n"))
		s.end(ctx, p)
		for _, pod := range low {
			admin.Remove(ctx, pod)
		}
		Eventually(admin.NominatedNode(ctx, middle)).Should(BeEmpty())
		Expect(middle.Spec.NodeName).To(BeEmpty())
	},
	Entry("when a pod of higher priority evicts others there, too", minute, nominationCase{
		nodes: nodes{node("n").Capacity("cpu", "5")},
		low: pods{
			slowlyTerminating("low-1", "low").Requests("cpu", "1"), slowlyTerminating("low-2", "low").Requests("cpu", "1"),
			slowlyTerminating("low-3", "low").Requests("cpu", "1"), slowlyTerminating("low-4", "low").Requests("cpu", "1"),
		},
		middle: podWithClass("middle", "middle").Requests("cpu", "3"),
		end: func(ctx context.Context, p *v1alpha1.SchedulingProfile) {
			high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
			Eventually(admin.NominatedNode(ctx, high)).Should(Equal("n"))
		},
	}),
	Entry("when a pod of higher priority takes the free resources there", minute, nominationCase{
		nodes:  nodes{node("n").Capacity("cpu", "2")},
		low:    pods{slowlyTerminating("low", "low").Requests("cpu", "1")},
		middle: podWithClass("middle", "middle").Requests("cpu", "2"),
		end: func(ctx context.Context, p *v1alpha1.SchedulingProfile) {
			admin.ExpectBound(ctx, createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "1")))
		},
	}),
	Entry("when the node is deleted, and there is no other", minute, nominationCase{
		nodes:  nodes{node("n").Capacity("cpu", "1")},
		low:    pods{slowlyTerminating("low", "low").Requests("cpu", "1")},
		middle: podWithClass("middle", "middle").Requests("cpu", "1"),
		end:    func(ctx context.Context, _ *v1alpha1.SchedulingProfile) { deleteNode("n")(ctx) },
	}),
	Entry("when the node is deleted, and preemption cannot help on the other", minute, nominationCase{
		nodes:  nodes{node("n").Capacity("cpu", "1"), taintedNode("m", "away").Capacity("cpu", "1")},
		low:    pods{slowlyTerminating("low", "low").Requests("cpu", "1")},
		middle: podWithClass("middle", "middle").Requests("cpu", "1"),
		end:    func(ctx context.Context, _ *v1alpha1.SchedulingProfile) { deleteNode("n")(ctx) },
	}),
	Entry("when PreBind rejects it there", minute, nominationCase{
		nodes: nodes{node("n").Capacity("cpu", "1")}, edits: []edit{enableAt(preBindSet, "First")},
		low:    pods{slowlyTerminating("low", "low").Requests("cpu", "1")},
		middle: podWithClass("middle", "middle").Requests("cpu", "1"),
		end:    func(context.Context, *v1alpha1.SchedulingProfile) {},
	}),
)

// createNominated creates a pod whose status nominates a node before the first attempt.
func createNominated(ctx context.Context, p *v1alpha1.SchedulingProfile, node string, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	pod := createPod(ctx, p, builder)
	pod.Status.NominatedNodeName = node
	Expect(admin.Status().Update(ctx, pod)).To(Succeed())
	Eventually(func() string { return berth.Scheduler().Components().Cache.NominatedNode(pod.UID) }).Should(Equal(node))
	return pod
}

var _ = Describe("A pod that is created with a nominated node", func() {
	It("gets it if it fits there, although another has a higher score", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "500m"))
		createNode(ctx, node("m").Capacity("cpu", "5"))
		release := stopLoop(ctx)
		high := createNominated(ctx, p, "n", podWithClass("high", "high").Requests("cpu", "500m"))
		release()
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("n"))
		Expect(high.Status.NominatedNodeName).To(BeEmpty(), "a bound pod has no nomination")
	})

	It("gets another node if it does not fit there", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "500m"))
		createNode(ctx, node("m").Capacity("cpu", "500m"))
		createPod(ctx, p, podWithClass("low", "low").Requests("cpu", "100m").On("n"))
		waitForQueue(ctx)
		release := stopLoop(ctx)
		high := createNominated(ctx, p, "n", podWithClass("high", "high").Requests("cpu", "500m"))
		release()
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("m"))
	})

	It("loses the nomination if it does not fit there, and another pod gets the node", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		release := stopLoop(ctx)
		big := createNominated(ctx, p, "n", podWithClass("big", "low").Requests("cpu", "5"))
		fits := createPod(ctx, p, podWithClass("fits", "low").Requests("cpu", "3"))
		release()
		expectRefused(ctx, big)
		Eventually(admin.NominatedNode(ctx, big)).Should(BeEmpty())
		admin.ExpectBound(ctx, fits)
	})

	It("loses the nomination to a pod of higher priority without one", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		release := stopLoop(ctx)
		low := createNominated(ctx, p, "n", podWithClass("low", "low").Requests("cpu", "4"))
		high := createPod(ctx, p, podWithClass("high", "high").Requests("cpu", "4"))
		Eventually(queueCounts(p)).Should(HaveField("Active", 2))
		release()
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, low)
		Eventually(admin.NominatedNode(ctx, low)).Should(BeEmpty())
	})

	It("is nominated for another node with fewer victims", minute, func(ctx SpecContext) {
		p := createProfile(ctx)
		createNode(ctx, node("n").Capacity("cpu", "4"))
		createNode(ctx, node("m").Capacity("cpu", "4"))
		two := createVictims(ctx, p, 2, "2")
		one := createPod(ctx, p, podWithClass("one", "low").Requests("cpu", "3").On("m"))
		waitForQueue(ctx)
		release := stopLoop(ctx)
		open := writeGate.block("DELETE one")
		high := createNominated(ctx, p, "n", podWithClass("high", "high").Requests("cpu", "4"))
		release()
		Eventually(admin.NominatedNode(ctx, high)).Should(Equal("m"))
		open()
		expectGone(ctx, one)
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("m"))
		for _, pod := range two {
			Expect(admin.NodeName(ctx, pod)(Default)).To(Equal("n"))
		}
	})
})

// During the binding cycle a pod may have a nominated node.
var _ = DescribeTable("A pod in its binding cycle",
	func(ctx SpecContext, funcs pluginFuncs, edits []edit, announced bool) {
		first.setFuncs(funcs)
		second.setFuncs(pluginFuncs{postBind: func(_ context.Context, _ fwk.Handle, pod *v1.Pod) {
			callLog.Add("PostBind %s", pod.Status.NominatedNodeName)
		}})
		p := createProfile(ctx, append(edits, enableAt(postBindSet, "Second"))...)
		createNode(ctx, node("n"))
		pod := createPod(ctx, p, pod("a"))
		if announced {
			Eventually(admin.NominatedNode(ctx, pod)).Should(Equal("n"))
			Expect(pod.Spec.NodeName).To(BeEmpty())
			return
		}
		admin.ExpectBound(ctx, pod)
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		Eventually(func() string { return strings.Join(callLog.Lines(), "\n") }).Should(Equal("PostBind "), "PostBind gets a pod without nomination")
	},
	Entry("has a nominated node when PreBind does something", minute, pluginFuncs{preBind: func(ctx context.Context, _ *v1.Pod) *fwk.Status {
		select {
		case <-ctx.Done():
		case <-scenarioDone.Load().(chan struct{}):
		}
		return fwk.AsStatus(errors.New("the spec has ended"))
	}}, []edit{enableAt(preBindSet, "First")}, true),
	Entry("has a nominated node when it waits on Permit", minute, pluginFuncs{permit: permitWait}, []edit{enableAt(permitSet, "First")}, true),
	Entry("has no nominated node when Permit succeeds", minute, pluginFuncs{permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
		return nil, 0
	}}, []edit{enableAt(permitSet, "First")}, false),
	Entry("has no nominated node without Permit and PreBind plugins", minute, pluginFuncs{}, nil, false),
)

// A manager in its own process is killed while a pod is in PreBind: only its nominated node
// is left.
var _ = Describe("After the manager is killed", func() {
	It("a pod gets its nominated node, and another, which is tried first, gets the other node", minute, func(ctx SpecContext) {
		p := createProfile(ctx, enableAt(preBindSet, "First"), disableAt(queueSortSet, "*"), enableAt(queueSortSet, "ByName"))
		createNode(ctx, node("preferred").Capacity("pods", "1"))
		createNode(ctx, taintedNode("other", "rather-not").Mutate(preferNoSchedule))
		waitForQueue(ctx)
		stopManager()
		DeferCleanup(func(ctx SpecContext) {
			stopManager()
			berth = startManager(ctx)
			Eventually(queueCounts(sentinelProfile)).Should(Equal(decision.QueueCounts{Gated: 1}))
		})
		child := startManagerProcess(ctx)
		older := createPod(ctx, p, pod("tried-second"))
		Eventually(admin.NominatedNode(ctx, older)).Should(Equal("preferred"))
		child.Kill()
		Expect(admin.NodeName(ctx, older)(Default)).To(BeEmpty())

		By("the next manager leads")
		newer := createPod(ctx, p, pod("tried-first"))
		first.setFuncs(pluginFuncs{})
		berth = startManager(ctx, operator.SteadyLease...)
		admin.ExpectBound(ctx, older, newer)
		Expect([]string{older.Spec.NodeName, newer.Spec.NodeName}).To(Equal([]string{"preferred", "other"}))
	})
})
