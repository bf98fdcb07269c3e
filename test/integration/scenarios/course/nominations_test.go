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
	"github.com/berthdev/berth/test/support/fixture"
)

// slowly is a pod that terminates until somebody removes it.
func slowly(name, class string) *fixture.PodBuilder {
	return ranked(name, class).Mutate(func(pod *v1.Pod) { pod.Spec.TerminationGracePeriodSeconds = new(int64(1000)) })
}

// promise is a scenario: low pods have the room, middle is promised it at their
// cost, and then that promise ends.
type promise struct {
	nodes nodes
	low   pods
	edits []edit
	// middle is who is promised room on n.
	middle *fixture.PodBuilder
	// ends is what takes the promise away, but for the end of the low pods, who
	// go then.
	ends func(ctx context.Context, p *v1alpha1.SchedulingProfile)
}

var _ = DescribeTable("The promise of room on a node is taken back from a pod",
	func(ctx SpecContext, s promise) {
		first.plays(role{preBind: func(_ context.Context, pod *v1.Pod) *fwk.Status {
			if pod.Name == "middle" {
				return fwk.NewStatus(fwk.Unschedulable, "not this one")
			}
			return nil
		}})
		// One that fails again and again is seen between two attempts.
		p := aProfile(ctx, append(s.edits, backingOff(1000))...)
		for _, node := range s.nodes {
			aNode(ctx, node)
		}
		low := bound(ctx, p, s.low...)
		middle := aPod(ctx, p, s.middle)
		Eventually(promised(ctx, middle)).Should(Equal("n"))
		s.ends(ctx, p)
		for _, pod := range low {
			admin.Remove(ctx, pod)
		}
		Eventually(promised(ctx, middle)).Should(BeEmpty())
		Expect(middle.Spec.NodeName).To(BeEmpty())
	},
	Entry("when one that matters more evicts others there, too", minute, promise{
		nodes: nodes{node("n").Capacity("cpu", "5")},
		low: pods{
			slowly("low-1", "low").Requests("cpu", "1"), slowly("low-2", "low").Requests("cpu", "1"),
			slowly("low-3", "low").Requests("cpu", "1"), slowly("low-4", "low").Requests("cpu", "1"),
		},
		middle: ranked("middle", "middle").Requests("cpu", "3"),
		ends: func(ctx context.Context, p *v1alpha1.SchedulingProfile) {
			high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
			Eventually(promised(ctx, high)).Should(Equal("n"))
		},
	}),
	Entry("when one that matters more takes what is free there", minute, promise{
		nodes:  nodes{node("n").Capacity("cpu", "2")},
		low:    pods{slowly("low", "low").Requests("cpu", "1")},
		middle: ranked("middle", "middle").Requests("cpu", "2"),
		ends: func(ctx context.Context, p *v1alpha1.SchedulingProfile) {
			admin.ExpectBound(ctx, aPod(ctx, p, ranked("high", "high").Requests("cpu", "1")))
		},
	}),
	Entry("when the node goes, and there is no other", minute, promise{
		nodes:  nodes{node("n").Capacity("cpu", "1")},
		low:    pods{slowly("low", "low").Requests("cpu", "1")},
		middle: ranked("middle", "middle").Requests("cpu", "1"),
		ends:   func(ctx context.Context, _ *v1alpha1.SchedulingProfile) { nodeGoes("n")(ctx) },
	}),
	Entry("when the node goes, and on the other nobody could make room", minute, promise{
		nodes:  nodes{node("n").Capacity("cpu", "1"), tainted("m", "away").Capacity("cpu", "1")},
		low:    pods{slowly("low", "low").Requests("cpu", "1")},
		middle: ranked("middle", "middle").Requests("cpu", "1"),
		ends:   func(ctx context.Context, _ *v1alpha1.SchedulingProfile) { nodeGoes("n")(ctx) },
	}),
	Entry("when PreBind refuses it there", minute, promise{
		nodes: nodes{node("n").Capacity("cpu", "1")}, edits: []edit{at(preBinds, "First")},
		low:    pods{slowly("low", "low").Requests("cpu", "1")},
		middle: ranked("middle", "middle").Requests("cpu", "1"),
		ends:   func(context.Context, *v1alpha1.SchedulingProfile) {},
	}),
)

// nominated creates a pod whose status promises it a node before it is tried.
func nominated(ctx context.Context, p *v1alpha1.SchedulingProfile, node string, builder *fixture.PodBuilder) *v1.Pod {
	GinkgoHelper()
	pod := aPod(ctx, p, builder)
	pod.Status.NominatedNodeName = node
	Expect(admin.Status().Update(ctx, pod)).To(Succeed())
	Eventually(func() string { return berth.Scheduler().Components().Cache.NominatedNode(pod.UID) }).Should(Equal(node))
	return pod
}

var _ = Describe("A pod that comes with a promise of a node", func() {
	It("gets it when it fits there, although another would be better", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "500m"))
		aNode(ctx, node("m").Capacity("cpu", "5"))
		release := stopLoop(ctx)
		high := nominated(ctx, p, "n", ranked("high", "high").Requests("cpu", "500m"))
		release()
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("n"))
		Expect(high.Status.NominatedNodeName).To(BeEmpty(), "it is where it was promised room")
	})

	It("goes elsewhere when it does not fit there", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "500m"))
		aNode(ctx, node("m").Capacity("cpu", "500m"))
		aPod(ctx, p, ranked("low", "low").Requests("cpu", "100m").On("n"))
		ring(ctx)
		release := stopLoop(ctx)
		high := nominated(ctx, p, "n", ranked("high", "high").Requests("cpu", "500m"))
		release()
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("m"))
	})

	It("loses it when it is too big, and another gets the node", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		release := stopLoop(ctx)
		big := nominated(ctx, p, "n", ranked("big", "low").Requests("cpu", "5"))
		fits := aPod(ctx, p, ranked("fits", "low").Requests("cpu", "3"))
		release()
		expectRefused(ctx, big)
		Eventually(promised(ctx, big)).Should(BeEmpty())
		admin.ExpectBound(ctx, fits)
	})

	It("loses it to one that matters more and has none", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		release := stopLoop(ctx)
		low := nominated(ctx, p, "n", ranked("low", "low").Requests("cpu", "4"))
		high := aPod(ctx, p, ranked("high", "high").Requests("cpu", "4"))
		Eventually(waiting(p)).Should(HaveField("Active", 2))
		release()
		admin.ExpectBound(ctx, high)
		expectRefused(ctx, low)
		Eventually(promised(ctx, low)).Should(BeEmpty())
	})

	It("is promised another node where fewer have to go for it", minute, func(ctx SpecContext) {
		p := aProfile(ctx)
		aNode(ctx, node("n").Capacity("cpu", "4"))
		aNode(ctx, node("m").Capacity("cpu", "4"))
		two := victims(ctx, p, 2, "2")
		one := aPod(ctx, p, ranked("one", "low").Requests("cpu", "3").On("m"))
		ring(ctx)
		release := stopLoop(ctx)
		open := theDoor.close("DELETE one")
		high := nominated(ctx, p, "n", ranked("high", "high").Requests("cpu", "4"))
		release()
		Eventually(promised(ctx, high)).Should(Equal("m"))
		open()
		gone(ctx, one)
		admin.ExpectBound(ctx, high)
		Expect(high.Spec.NodeName).To(Equal("m"))
		for _, pod := range two {
			Expect(admin.Place(ctx, pod)(Default)).To(Equal("n"))
		}
	})
})

// While it is on its way there, its status may promise it the node.
var _ = DescribeTable("A pod on its way to a node",
	func(ctx SpecContext, plays role, edits []edit, announced bool) {
		first.plays(plays)
		second.plays(role{postBind: func(_ context.Context, _ fwk.Handle, pod *v1.Pod) {
			journal.Add("PostBind %s", pod.Status.NominatedNodeName)
		}})
		p := aProfile(ctx, append(edits, at(postBinds, "Second"))...)
		aNode(ctx, node("n"))
		pod := aPod(ctx, p, pod("a"))
		if announced {
			Eventually(promised(ctx, pod)).Should(Equal("n"))
			Expect(pod.Spec.NodeName).To(BeEmpty())
			return
		}
		admin.ExpectBound(ctx, pod)
		Expect(pod.Status.NominatedNodeName).To(BeEmpty())
		Eventually(func() string { return strings.Join(journal.Lines(), "\n") }).Should(Equal("PostBind "), "PostBind sees no promise")
	},
	Entry("is promised it when PreBind has work to do", minute, role{preBind: func(ctx context.Context, _ *v1.Pod) *fwk.Status {
		select {
		case <-ctx.Done():
		case <-curtain.Load().(chan struct{}):
		}
		return fwk.AsStatus(errors.New("the scene is over"))
	}}, []edit{at(preBinds, "First")}, true),
	Entry("is promised it when it waits at Permit", minute, role{permit: waits}, []edit{at(permits, "First")}, true),
	Entry("is not when Permit lets it pass", minute, role{permit: func(context.Context, fwk.Handle, *v1.Pod) (*fwk.Status, time.Duration) {
		return nil, 0
	}}, []edit{at(permits, "First")}, false),
	Entry("is not when neither has anything to do", minute, role{}, nil, false),
)
