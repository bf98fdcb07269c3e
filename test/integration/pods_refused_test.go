package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("A pod that fits nowhere", func() {
	It("is told why in upstream's words, and so is whoever reads Events", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx)
		aNode(ctx, y.node("small").Capacity("cpu", "1"))
		aNode(ctx, y.node("smaller").Capacity("cpu", "500m"))
		aNode(ctx, y.node("tainted").Capacity("cpu", "8").Taint("team", "red", v1.TaintEffectNoSchedule))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))

		const why = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
		Eventually(admin.Standing(ctx, pod)).Should(HavePrefix("False Unschedulable: " + why))
		Expect(pod.Spec.NodeName).To(BeEmpty())
		Eventually(told(ctx, pod)).Should(ConsistOf(HavePrefix("Warning FailedScheduling Scheduling by " + p.Name + ": " + why)))
	})

	It("is told so where there are no nodes, and bound when one comes", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		Eventually(func(g Gomega) {
			var nodes v1.NodeList
			g.Expect(admin.List(ctx, &nodes)).To(Succeed())
			g.Expect(nodes.Items).To(BeEmpty())
		}).Should(Succeed())
		pod := aPod(ctx, y.pod(p, "web"))
		Eventually(admin.Standing(ctx, pod)).Should(Equal("False Unschedulable: no nodes available to schedule pods"))
		aNode(ctx, y.node("n"))
		admin.ExpectBound(ctx, pod)
	})

	It("is not tried again for what cannot help it", minute, func(ctx SpecContext) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		aNode(ctx, y.node("small").Capacity("cpu", "1"))
		pod := aPod(ctx, y.pod(p, "web").Requests("cpu", "2"))
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		aNode(ctx, y.node("no-bigger").Capacity("cpu", "1"))
		other := aPod(ctx, y.pod(p, "other").Requests("cpu", "1"))
		admin.ExpectBound(ctx, other)
		aNode(ctx, y.node("big").Capacity("cpu", "4"))
		Expect(recordOf(ctx, pod).Attempts).To(Equal(2))
	})
})

// A need is what one pod lacks in a yard, and what gives it that.
type need struct {
	node *fixture.NodeBuilder
	// before is a pod that is bound first; nil for none.
	before, pod *fixture.PodBuilder
	help        func(ctx context.Context, node *v1.Node, before, pod *v1.Pod)
}

// Nothing but the event itself can wake these pods: they are never flushed.
var _ = DescribeTable("A pod that fits nowhere is bound when",
	func(ctx SpecContext, of func(y yard, p *v1alpha1.SchedulingProfile) need) {
		y, p := aYard(ctx), aProfile(ctx, neverFlushing)
		n := of(y, p)
		node := aNode(ctx, n.node)
		var before *v1.Pod
		if n.before != nil {
			before = aPod(ctx, n.before)
			admin.ExpectBound(ctx, before)
		}
		pod := aPod(ctx, n.pod)
		expectHeld(ctx, v1.PodReasonUnschedulable, pod)
		Eventually(waiting(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		flushed := apitest.BoundAfterFlush(berth.Scheduler().Metrics())

		n.help(ctx, node, before, pod)
		Expect(recordOf(ctx, pod).Attempts).To(BeNumerically(">=", 2))
		Expect(apitest.Scheduled(pod)).To(Equal("True"))
		Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(Equal(flushed), "an event woke it, not the flush")
	},
	Entry("a node comes", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("small").Capacity("cpu", "1"), nil, y.pod(p, "web").Requests("cpu", "2"),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) { aNode(ctx, y.node("big").Capacity("cpu", "2")) }}
	}),
	Entry("a node grows", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Capacity("cpu", "1"), nil, y.pod(p, "web").Requests("cpu", "2"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				node.Status = y.node("n").Capacity("cpu", "4").Obj().Status
				Expect(admin.Status().Update(ctx, node)).To(Succeed())
			}}
	}),
	Entry("a pod leaves", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Capacity("cpu", "2"), y.pod(p, "old").Requests("cpu", "2"), y.pod(p, "web").Requests("cpu", "1"),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("a pod has run to its end", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Capacity("cpu", "2"), y.pod(p, "job").Requests("cpu", "2"), y.pod(p, "web").Requests("cpu", "1"),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) {
				before.Status.Phase = v1.PodSucceeded
				Expect(admin.Status().Update(ctx, before)).To(Succeed())
			}}
	}),
	Entry("a foe leaves", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n"), y.pod(p, "old").Label("app", "web"), y.pod(p, "web").RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("a friend comes", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n"), nil, y.pod(p, "web").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) { aPod(ctx, y.pod(p, "db").Label("app", "db")) }}
	}),
	Entry("the namespace of a friend is labelled", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		term := fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")
		term.NamespaceSelector = fixture.LabelSelector("team", y.name)
		return need{y.node("n"), y.pod(p, "db").Label("app", "db"), y.pod(p, "web").RequirePodAffinity(term),
			func(ctx context.Context, _ *v1.Node, _, pod *v1.Pod) {
				namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
				apitest.Change(ctx, admin, namespace, func(n *v1.Namespace) { n.Labels = map[string]string{"team": y.name} })
			}}
	}),
	Entry("a domain to spread to comes", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		apart := fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web")
		apart.MinDomains = new(int32(2))
		return need{y.node("n"), y.pod(p, "old").Label("app", "web"), y.pod(p, "web").Label("app", "web").Spread(apart),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) { aNode(ctx, y.node("m")) }}
	}),
	Entry("a port is given back", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n"), y.pod(p, "old").HostPort("", v1.ProtocolTCP, 80), y.pod(p, "web").HostPort("", v1.ProtocolTCP, 80),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("its toleration is added", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Taint("team", "red", v1.TaintEffectNoSchedule), nil, y.pod(p, "web"),
			func(ctx context.Context, _ *v1.Node, _, pod *v1.Pod) {
				apitest.Change(ctx, admin, pod, func(pod *v1.Pod) {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: "team", Operator: v1.TolerationOpExists})
				})
			}}
	}),
	Entry("a taint is taken off", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Taint("team", "red", v1.TaintEffectNoSchedule), nil, y.pod(p, "web"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Spec.Taints = nil })
			}}
	}),
	Entry("a node is uncordoned", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n").Unschedulable(), nil, y.pod(p, "web"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Spec.Unschedulable = false })
			}}
	}),
	Entry("a node gets the label that it selects", minute, func(y yard, p *v1alpha1.SchedulingProfile) need {
		return need{y.node("n"), nil, y.pod(p, "web").NodeSelector("disk", "ssd"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Labels["disk"] = "ssd" })
			}}
	}),
)
