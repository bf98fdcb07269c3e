package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/test/support/apitest"
	"github.com/berthdev/berth/test/support/fixture"
)

var _ = Describe("A pod that fits on no node", func() {
	It("has kube-scheduler's message in its condition and in an Event", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("small").Capacity("cpu", "1"))
		createNode(ctx, env.node("smaller").Capacity("cpu", "500m"))
		createNode(ctx, env.node("tainted").Capacity("cpu", "8").Taint("team", "red", v1.TaintEffectNoSchedule))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))

		const why = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
		Eventually(admin.PodScheduled(ctx, pod)).Should(HavePrefix("False Unschedulable: " + why))
		Expect(pod.Spec.NodeName).To(BeEmpty())
		Eventually(podEvents(ctx, pod)).Should(ConsistOf(HavePrefix("Warning FailedScheduling Scheduling by " + p.Name + ": " + why)))
	})

	It("has a message where there are no nodes, and is bound when one is created", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		Eventually(func(g Gomega) {
			var nodes v1.NodeList
			g.Expect(admin.List(ctx, &nodes)).To(Succeed())
			g.Expect(nodes.Items).To(BeEmpty())
			g.Expect(berth.Informers().Core().V1().Nodes().Lister().List(labels.Everything())).To(BeEmpty())
		}).Should(Succeed())
		pod := createPod(ctx, env.pod(p, "web"))
		Eventually(admin.PodScheduled(ctx, pod)).Should(Equal("False Unschedulable: no nodes available to schedule pods"))
		createNode(ctx, env.node("n"))
		admin.ExpectBound(ctx, pod)
	})

	It("is not tried again for an event that cannot help", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		createNode(ctx, env.node("small").Capacity("cpu", "1"))
		pod := createPod(ctx, env.pod(p, "web").Requests("cpu", "2"))
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		createNode(ctx, env.node("no-bigger").Capacity("cpu", "1"))
		other := createPod(ctx, env.pod(p, "other").Requests("cpu", "1"))
		admin.ExpectBound(ctx, other)
		createNode(ctx, env.node("big").Capacity("cpu", "4"))
		Expect(boundRecord(ctx, pod).Attempts).To(Equal(2))
	})
})

// requeueCase is a pod that fits on no node, and the change after which it fits.
type requeueCase struct {
	node *fixture.NodeBuilder
	// before is a pod that is bound first, or nil.
	before, pod *fixture.PodBuilder
	change      func(ctx context.Context, node *v1.Node, before, pod *v1.Pod)
}

// The pods are never flushed, so only the event can requeue them.
var _ = DescribeTable("A pod that fits on no node is bound when",
	func(ctx SpecContext, of func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase) {
		env, p := newTestEnv(ctx), createProfile(ctx, neverFlush)
		n := of(env, p)
		node := createNode(ctx, n.node)
		var before *v1.Pod
		if n.before != nil {
			before = createPod(ctx, n.before)
			admin.ExpectBound(ctx, before)
		}
		pod := createPod(ctx, n.pod)
		expectReason(ctx, v1.PodReasonUnschedulable, pod)
		Eventually(queueCounts(p)).Should(Equal(decision.QueueCounts{Unschedulable: 1}))
		flushed := apitest.BoundAfterFlush(berth.Scheduler().Metrics())

		n.change(ctx, node, before, pod)
		Expect(boundRecord(ctx, pod).Attempts).To(BeNumerically(">=", 2))
		Expect(apitest.PodScheduled(pod)).To(Equal("True"))
		Expect(apitest.BoundAfterFlush(berth.Scheduler().Metrics())).To(Equal(flushed), "no flush requeued it")
	},
	Entry("a node is created", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("small").Capacity("cpu", "1"), nil, env.pod(p, "web").Requests("cpu", "2"),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) {
				createNode(ctx, env.node("big").Capacity("cpu", "2"))
			}}
	}),
	Entry("a node gets more resources", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Capacity("cpu", "1"), nil, env.pod(p, "web").Requests("cpu", "2"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				node.Status = env.node("n").Capacity("cpu", "4").Obj().Status
				Expect(admin.Status().Update(ctx, node)).To(Succeed())
			}}
	}),
	Entry("a pod is deleted", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Capacity("cpu", "2"), env.pod(p, "old").Requests("cpu", "2"), env.pod(p, "web").Requests("cpu", "1"),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("a pod has succeeded", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Capacity("cpu", "2"), env.pod(p, "job").Requests("cpu", "2"), env.pod(p, "web").Requests("cpu", "1"),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) {
				before.Status.Phase = v1.PodSucceeded
				Expect(admin.Status().Update(ctx, before)).To(Succeed())
			}}
	}),
	Entry("a pod with conflicting anti-affinity is deleted", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n"), env.pod(p, "old").Label("app", "web"), env.pod(p, "web").RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web")),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("a pod that it has affinity to is created", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n"), nil, env.pod(p, "web").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) {
				createPod(ctx, env.pod(p, "db").Label("app", "db"))
			}}
	}),
	Entry("the namespace of a pod that it has affinity to is labelled", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		term := fixture.PodAffinityTerm(v1.LabelHostname, "app", "db")
		term.NamespaceSelector = fixture.LabelSelector("team", env.namespace)
		return requeueCase{env.node("n"), env.pod(p, "db").Label("app", "db"), env.pod(p, "web").RequirePodAffinity(term),
			func(ctx context.Context, _ *v1.Node, _, pod *v1.Pod) {
				namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: pod.Namespace}}
				apitest.Change(ctx, admin, namespace, func(n *v1.Namespace) { n.Labels = map[string]string{"team": env.namespace} })
			}}
	}),
	Entry("a node with another topology domain is created", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		apart := fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web")
		apart.MinDomains = new(int32(2))
		return requeueCase{env.node("n"), env.pod(p, "old").Label("app", "web"), env.pod(p, "web").Label("app", "web").Spread(apart),
			func(ctx context.Context, _ *v1.Node, _, _ *v1.Pod) { createNode(ctx, env.node("m")) }}
	}),
	Entry("a host port becomes free", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n"), env.pod(p, "old").HostPort("", v1.ProtocolTCP, 80), env.pod(p, "web").HostPort("", v1.ProtocolTCP, 80),
			func(ctx context.Context, _ *v1.Node, before, _ *v1.Pod) { admin.Remove(ctx, before) }}
	}),
	Entry("it gets a toleration", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Taint("team", "red", v1.TaintEffectNoSchedule), nil, env.pod(p, "web"),
			func(ctx context.Context, _ *v1.Node, _, pod *v1.Pod) {
				apitest.Change(ctx, admin, pod, func(pod *v1.Pod) {
					pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: "team", Operator: v1.TolerationOpExists})
				})
			}}
	}),
	Entry("a node loses a taint", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Taint("team", "red", v1.TaintEffectNoSchedule), nil, env.pod(p, "web"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Spec.Taints = nil })
			}}
	}),
	Entry("a node is uncordoned", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n").Unschedulable(), nil, env.pod(p, "web"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Spec.Unschedulable = false })
			}}
	}),
	Entry("a node gets the label of its node selector", minute, func(env testEnv, p *v1alpha1.SchedulingProfile) requeueCase {
		return requeueCase{env.node("n"), nil, env.pod(p, "web").NodeSelector("disk", "ssd"),
			func(ctx context.Context, node *v1.Node, _, _ *v1.Pod) {
				apitest.Change(ctx, admin, node, func(node *v1.Node) { node.Labels["disk"] = "ssd" })
			}}
	}),
)

var _ = Describe("Pods with constraints between pods", func() {
	It("are spread evenly by topologySpreadConstraints", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		for _, name := range []string{"a", "b", "c"} {
			createNode(ctx, env.node(name))
		}
		held := map[string]int{}
		for i := range 6 {
			pod := createPod(ctx, env.pod(p, fmt.Sprint("web", i)).Label("app", "web").Spread(fixture.HardSpreadConstraint(v1.LabelHostname, "app", "web")))
			held[boundRecord(ctx, pod).Node]++
		}
		Expect(held).To(HaveLen(3))
		Expect(held).To(HaveEach(2))
	})

	It("with anti-affinity are kept apart, and one pod too many has the reason", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		createNode(ctx, env.node("a"))
		createNode(ctx, env.node("b"))
		loner := func(name string) *fixture.PodBuilder {
			return env.pod(p, name).Label("app", "web").RequirePodAntiAffinity(fixture.PodAffinityTerm(v1.LabelHostname, "app", "web"))
		}
		one, two := boundRecord(ctx, createPod(ctx, loner("one"))), boundRecord(ctx, createPod(ctx, loner("two")))
		Expect(one.Node).NotTo(Equal(two.Node))
		Eventually(admin.PodScheduled(ctx, createPod(ctx, loner("three")))).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."))
		Eventually(admin.PodScheduled(ctx, createPod(ctx, env.pod(p, "four").Label("app", "web")))).Should(HavePrefix(
			"False Unschedulable: 0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."))
	})

	It("with affinity are bound together, the first of them anywhere", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		for _, name := range []string{"a", "b", "c"} {
			createNode(ctx, env.node(name).Zone(env.namespace+name))
		}
		together := func(name string) *fixture.PodBuilder {
			return env.pod(p, name).Label("app", "web").RequirePodAffinity(fixture.PodAffinityTerm(v1.LabelTopologyZone, "app", "web"))
		}
		first := boundRecord(ctx, createPod(ctx, together("first")))
		for i := range 3 {
			Expect(boundRecord(ctx, createPod(ctx, together(fmt.Sprint("next", i)))).Node).To(Equal(first.Node))
		}
	})
})

// No controller binds claims here, so a spec binds them itself to show what Berth writes
// and what it waits for. test/integration/scenarios/volumes has the real controller.
var _ = Describe("A pod whose claim waits for its first consumer", func() {
	It("reserves an existing volume, and is bound when the claim is bound", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		expectReady(ctx, p)
		class := apitest.Created(ctx, admin, fixture.StorageClass(env.namespace+"-there", "")).Name
		disk := apitest.Created(ctx, admin, withoutIdentity(fixture.Volume(env.namespace+"-disk", class).Obj()))
		disk.Status.Phase = v1.VolumeAvailable
		Expect(admin.Status().Update(ctx, disk)).To(Succeed())
		claim := apitest.Created(ctx, admin, withoutIdentity(fixture.Claim(env.namespace+"/data", class).Obj()))
		createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "db").Claim("data"))

		Eventually(func(g Gomega) *v1.ObjectReference {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(disk), disk)).To(Succeed())
			return disk.Spec.ClaimRef
		}).Should(HaveValue(HaveField("UID", claim.UID)))
		Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { bindClaim(c, disk.Name) })
		admin.ExpectBound(ctx, pod)
	})

	It("has the selected node written to the claim, and is bound when a volume is provisioned", minute, func(ctx SpecContext) {
		env, p := newTestEnv(ctx), createProfile(ctx)
		expectReady(ctx, p)
		class := apitest.Created(ctx, admin, fixture.StorageClass(env.namespace+"-made", "csi.example.com")).Name
		claim := apitest.Created(ctx, admin, withoutIdentity(fixture.Claim(env.namespace+"/data", class).Obj()))
		node := createNode(ctx, env.node("n"))
		pod := createPod(ctx, env.pod(p, "db").Claim("data"))

		Eventually(func(g Gomega) map[string]string {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			return claim.Annotations
		}).Should(HaveKeyWithValue(volume.AnnSelectedNode, node.Name))
		Expect(admin.NodeName(ctx, pod)(Default)).To(BeEmpty())
		made := apitest.Created(ctx, admin, withoutIdentity(fixture.Volume(env.namespace+"-made", class).BoundTo(claim).Obj()))
		apitest.Change(ctx, admin, claim, func(c *v1.PersistentVolumeClaim) { bindClaim(c, made.Name) })
		admin.ExpectBound(ctx, pod)
	})
})

// withoutIdentity removes the UID and the resource version, so that the object can be
// created.
func withoutIdentity[T client.Object](object T) T {
	object.SetUID("")
	object.SetResourceVersion("")
	return object
}

// bindClaim binds a claim as kube-controller-manager does.
func bindClaim(claim *v1.PersistentVolumeClaim, name string) {
	claim.Spec.VolumeName = name
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[volume.AnnBindCompleted] = "yes"
}
