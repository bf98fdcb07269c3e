package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/fixture"
)

// resourceScenario has two equal nodes, of which a has a pod with a sidecar more than b.
func resourceScenario(by string, want result) scenario {
	node := func(name string) *fixture.NodeBuilder {
		return fixture.Node(name).Capacity("cpu", "8", "memory", "16G", gpu, "4")
	}
	pod := func(name string) *fixture.PodBuilder {
		return fixture.Pod(name).Requests("cpu", "2", "memory", "4G", gpu, "1").Mutate(setGPULimit)
	}
	return scenario{
		profile: by, nodes: nodes(node("a"), node("b")),
		existing: pods(pod("old0").SidecarRequests("cpu", "2", "memory", "4G").On("a"), pod("old1").On("b")),
		pod:      pod("new"), want: want,
	}
}

// setGPULimit sets the limit that the API server requires.
func setGPULimit(pod *v1.Pod) {
	resources := &pod.Spec.Containers[0].Resources
	resources.Limits = v1.ResourceList{gpu: resources.Requests[gpu]}
}

var _ = table("Scores by resources:",
	entry("the emptier node is best, sidecars included", resourceScenario(leastAllocated, best("b"))),
	entry("the fuller node is best, sidecars included", resourceScenario(mostAllocated, best("a"))),
)

// hallNode returns a node in a domain of the topology hall.
func hallNode(name, domain string) *fixture.NodeBuilder {
	return fixture.Node(name).Label("hall", domain)
}

// hallNodes are two nodes in each of three domains, and one in none.
func hallNodes() []*fixture.NodeBuilder {
	return nodes(hallNode("a", "1"), hallNode("b", "2"), hallNode("c", "3"), hallNode("d", "1"), hallNode("e", "2"), hallNode("f", "3"), fixture.Node("g"))
}

// preferringPod prefers the term with weight 50, and version x with weight 10.
func preferringPod(term v1.PodAffinityTerm) *fixture.PodBuilder {
	return versionedPod("new", "1").PreferPodAffinity(50, term).PreferPodAffinity(10, affinityTerm("hall", in("version", "x")))
}

var _ = table("Scores by preference:",
	entry("the one node of five with the label is best", scenario{
		profile: scoreNodeAffinity, nodes: append(zonedNodes(), fixture.Node("e").Label("disk", "ssd")),
		pod: fixture.Pod("new").PreferNodeAffinity(20, fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))), want: best("e"),
	}),
	entry("the domain of a pod that preferred affinity matches is best", scenario{
		profile: scorePodAffinity, nodes: hallNodes(), existing: pods(dbPod("a")),
		pod: fixture.Pod("new").PreferPodAffinity(50, affinityTerm("hall", in("app", "db", "cache"))), want: best("a", "d"),
	}),
	entry("the domain of a pod that preferred affinity matches in any namespace is best", scenario{
		profile: scorePodAffinity, nodes: hallNodes(), existing: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod: fixture.Pod(red+"/new").PreferPodAffinity(50, inTeam(affinityTerm("hall", in("app", "db", "cache")), "")), want: best("a", "d"),
	}),
	entry("the domain without a pod that matchLabelKeys matches is best under anti-affinity", scenario{
		profile: scorePodAffinity, nodes: nodes(hallNode("a", "1"), hallNode("b", "2")), existing: pods(versionedPod("x", "2").On("a"), versionedPod("y", "1").On("b")),
		pod: versionedPod("new", "1").PreferPodAntiAffinity(50, matchKey(affinityTerm("hall", exists("app")), "version")), want: best("a"),
	}),
	entry("the domain without a pod that mismatchLabelKeys matches is best under anti-affinity", scenario{
		profile: scorePodAffinity, nodes: nodes(hallNode("a", "1"), hallNode("b", "2")), existing: pods(versionedPod("x", "2").On("a"), versionedPod("y", "1").On("b")),
		pod: versionedPod("new", "1").PreferPodAntiAffinity(50, mismatchKey(affinityTerm("hall", exists("app")), "version")), want: best("b"),
	}),
	entry("the domain of the pod that matchLabelKeys matches is better than others", scenario{
		profile: scorePodAffinity, nodes: hallNodes(), existing: pods(versionedPod("x", "x").On("a"), versionedPod("y", "x").On("b"), versionedPod("z", "1").On("c")),
		pod: preferringPod(matchKey(affinityTerm("hall", exists("app")), "version")), want: best("c", "f"),
	}),
	entry("the domain of the pod that mismatchLabelKeys matches is better than others", scenario{
		profile: scorePodAffinity, nodes: hallNodes(), existing: pods(versionedPod("x", "1").On("a"), versionedPod("y", "1").On("b"), versionedPod("z", "x").On("c")),
		pod: preferringPod(mismatchKey(affinityTerm("hall", exists("app")), "version")), want: best("c", "f"),
	}),
	entry("both nodes are best when there are no taints", scenario{
		profile: scoreTaints, nodes: nodes(fixture.Node("a"), fixture.Node("b")), pod: fixture.Pod("new"), want: best("a", "b"),
	}),
	entry("both nodes are best when it tolerates the taint", scenario{
		profile: scoreTaints, nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule), fixture.Node("b")),
		pod: fixture.Pod("new").Tolerate("team", "red", v1.TaintEffectPreferNoSchedule), want: best("a", "b"),
	}),
	entry("the node without the taint is best when it tolerates another taint", scenario{
		profile: scoreTaints, nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule), fixture.Node("b")),
		pod: fixture.Pod("new").Tolerate("disk", "slow", v1.TaintEffectPreferNoSchedule), want: best("b"),
	}),
	entry("the node with PreferNoSchedule is best beside one with NoSchedule, whatever a comparison says", scenario{
		profile: scoreTaints, nodes: nodes(taintedNode("level", "800"), fixture.Node("b").Taint("level", "999", v1.TaintEffectPreferNoSchedule)),
		pod: podComparing("level", gt, "900", v1.TaintEffectPreferNoSchedule), want: best("b"),
	}),
	entry("the one node of five that has its large image is best", scenario{
		profile: scoreImages, nodes: append(zonedNodes(), fixture.Node("e").Image(3<<30, "registry.test/large:v1")),
		pod: fixture.Pod("new").Image("registry.test/large:v1"), want: best("e"),
	}),
	entry("the emptiest of the feasible nodes is best", scenario{
		profile: scoreSpread, nodes: zonedNodes(taintRed), existing: webPodsOn("b", "c", "c", "d", "d", "d"),
		pod: spreadPod(spreadConstraint(hostname, soft)), want: best("b"),
	}),
	entry("the emptiest node of the zone that a hard constraint leaves is best", scenario{
		profile: scoreSpread, nodes: zonedNodes(taintRed), existing: webPodsOn("a", "a", "a", "a", "c", "d", "d"),
		pod: spreadPod(spreadConstraint(hostname, soft), spreadConstraint(zone)), want: best("c"),
	}),
	entry("the emptiest zone and node are best, without the nodes that it does not select", scenario{
		profile: scoreSpread, nodes: zonedNodes(labelSSD, softTaintedSSD, labelSSD), existing: webPodsOn("a", "b", "b", "d"),
		pod: spreadPod(spreadConstraint(zone, soft), spreadConstraint(hostname, soft)).NodeSelector("disk", "ssd"), want: best("c"),
	}),
	entry("the emptiest zone of all nodes and the emptiest node without taints are best", scenario{
		profile: scoreSpread, nodes: zonedNodes(labelSSD, softTaintedSSD, labelSSD), existing: webPodsOn("a", "b", "b", "d"),
		pod: spreadPod(spreadConstraint(zone, soft, ignoreAffinity), spreadConstraint(hostname, soft, honorTaints)).NodeSelector("disk", "ssd"), want: best("c"),
	}),
	entry("the node with the fewest pods of its version is best", scenario{
		profile: scoreSpread, nodes: zonedNodes(taintRed),
		existing: append(webPodsOn("c", "c", "d"), versionedPod("x", "2").On("b"), versionedPod("y", "2").On("d"), versionedPod("z", "2").On("d")),
		pod:      spreadPod(spreadConstraint(hostname, soft, matchVersion)).Label("version", "2"), want: best("c"),
	}),
	entry("the node with the fewest pods of its application, which only a key names, is best", scenario{
		profile: scoreSpread, nodes: zonedNodes(taintRed), existing: webPodsOn("b", "c", "c", "d", "d", "d"),
		pod: spreadPod(spreadConstraint(hostname, soft, matchApp)), want: best("b"),
	}),
)

func softTaintedSSD(node *fixture.NodeBuilder) {
	labelSSD(node)
	node.Taint("team", "red", v1.TaintEffectPreferNoSchedule)
}

var _ = Describe("Pods of a Service without constraints", func() {
	It("are spread evenly over the zones of 300 nodes", minute, func(ctx SpecContext) {
		const zones = 3
		service := fixture.Service("web", "app", "web")
		service.Spec.Ports = []v1.ServicePort{{Port: 80}}
		Expect(admin.Create(ctx, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, service)).To(Succeed()) })
		env := newTestEnv()
		Expect(cp.Nodes(ctx, 300, controlplane.NodeOptions{Zones: zones})).To(Succeed())
		env.addNodes(ctx, lastNode())
		var all v1.NodeList
		Expect(admin.List(ctx, &all)).To(Succeed())
		zoneOf := map[string]string{}
		for _, node := range all.Items {
			zoneOf[node.Name] = node.Labels[zone]
		}

		count := 0
		for _, more := range []int{3, 9, 15} {
			for range more {
				env.createPod(ctx, webPod(fmt.Sprint("web", count)).SchedulerName(scoreSpread))
				count++
			}
			By(fmt.Sprintf("%d pods, the same number in each zone", count))
			Eventually(podsByZone(ctx, zoneOf)).Should(Equal(map[string]int{
				"zone-0": count / zones, "zone-1": count / zones, "zone-2": count / zones,
			}))
		}
	})
})

// podsByZone counts the pods of the default namespace by zone. It fails while one is not
// bound.
func podsByZone(ctx context.Context, zoneOf map[string]string) func(g Gomega) map[string]int {
	return func(g Gomega) map[string]int {
		var all v1.PodList
		g.Expect(admin.List(ctx, &all, client.InNamespace("default"))).To(Succeed())
		counts := map[string]int{}
		for _, pod := range all.Items {
			g.Expect(pod.Spec.NodeName).NotTo(BeEmpty(), pod.Name)
			counts[zoneOf[pod.Spec.NodeName]]++
		}
		return counts
	}
}
