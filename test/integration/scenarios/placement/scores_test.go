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

// loaded are two nodes alike, a with one more sidecar on it than b.
func loaded(by string, want verdict) scenario {
	node := func(name string) *fixture.NodeBuilder {
		return fixture.Node(name).Capacity("cpu", "8", "memory", "16G", gpu, "4")
	}
	pod := func(name string) *fixture.PodBuilder {
		return fixture.Pod(name).Requests("cpu", "2", "memory", "4G", gpu, "1").Mutate(limited)
	}
	return scenario{
		by: by, nodes: nodes(node("a"), node("b")),
		there: pods(pod("old0").SidecarRequests("cpu", "2", "memory", "4G").On("a"), pod("old1").On("b")),
		pod:   pod("new"), want: want,
	}
}

// limited sets limits where they must be what is requested.
func limited(pod *v1.Pod) {
	resources := &pod.Spec.Containers[0].Resources
	resources.Limits = v1.ResourceList{gpu: resources.Requests[gpu]}
}

var _ = table("Where a pod goes by room:",
	entry("to the node that is emptier, sidecars counted", loaded(leastGPU, best("b"))),
	entry("to the node that is fuller, sidecars counted", loaded(mostGPU, best("a"))),
)

// hall is a node in one of the domains of host's wider kin.
func hall(name, domain string) *fixture.NodeBuilder { return fixture.Node(name).Label("hall", domain) }

// halls are two nodes in each of three domains, and one in none.
func halls() []*fixture.NodeBuilder {
	return nodes(hall("a", "1"), hall("b", "2"), hall("c", "3"), hall("d", "1"), hall("e", "2"), hall("f", "3"), fixture.Node("g"))
}

// drawn prefers strongly what term says, and weakly version x.
func drawn(term v1.PodAffinityTerm) *fixture.PodBuilder {
	return kin("new", "1").PreferPodAffinity(50, term).PreferPodAffinity(10, by("hall", in("version", "x")))
}

var _ = table("Where a pod goes by preference:",
	entry("to the one node of five with the label", scenario{
		by: byNodes, nodes: append(square(), fixture.Node("e").Label("disk", "ssd")),
		pod: fixture.Pod("new").PreferNodeAffinity(20, fixture.NodeSelectorTerm(fixture.In("disk", "ssd"))), want: best("e"),
	}),
	entry("into the domain of a friend", scenario{
		by: byPods, nodes: halls(), there: pods(db("a")),
		pod: fixture.Pod("new").PreferPodAffinity(50, by("hall", in("app", "db", "cache"))), want: best("a", "d"),
	}),
	entry("into the domain of a friend of whatever namespace", scenario{
		by: byPods, nodes: halls(), there: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod: fixture.Pod(red+"/new").PreferPodAffinity(50, within(by("hall", in("app", "db", "cache")), "")), want: best("a", "d"),
	}),
	entry("out of the domain of who is like it", scenario{
		by: byPods, nodes: nodes(hall("a", "1"), hall("b", "2")), there: pods(kin("x", "2").On("a"), kin("y", "1").On("b")),
		pod: kin("new", "1").PreferPodAntiAffinity(50, alike(by("hall", has("app")), "version")), want: best("a"),
	}),
	entry("out of the domain of who is unlike it", scenario{
		by: byPods, nodes: nodes(hall("a", "1"), hall("b", "2")), there: pods(kin("x", "2").On("a"), kin("y", "1").On("b")),
		pod: kin("new", "1").PreferPodAntiAffinity(50, unlike(by("hall", has("app")), "version")), want: best("b"),
	}),
	entry("into the domain of who is like it, rather than of others", scenario{
		by: byPods, nodes: halls(), there: pods(kin("x", "x").On("a"), kin("y", "x").On("b"), kin("z", "1").On("c")),
		pod: drawn(alike(by("hall", has("app")), "version")), want: best("c", "f"),
	}),
	entry("into the domain of who is unlike it, rather than of others", scenario{
		by: byPods, nodes: halls(), there: pods(kin("x", "1").On("a"), kin("y", "1").On("b"), kin("z", "x").On("c")),
		pod: drawn(unlike(by("hall", has("app")), "version")), want: best("c", "f"),
	}),
	entry("to either node when there are no taints", scenario{
		by: byTaints, nodes: nodes(fixture.Node("a"), fixture.Node("b")), pod: fixture.Pod("new"), want: best("a", "b"),
	}),
	entry("to either node when it bears the taint", scenario{
		by: byTaints, nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule), fixture.Node("b")),
		pod: fixture.Pod("new").Tolerate("team", "red", v1.TaintEffectPreferNoSchedule), want: best("a", "b"),
	}),
	entry("to the node without the taint when it bears another", scenario{
		by: byTaints, nodes: nodes(fixture.Node("a").Taint("team", "red", v1.TaintEffectPreferNoSchedule), fixture.Node("b")),
		pod: fixture.Pod("new").Tolerate("disk", "slow", v1.TaintEffectPreferNoSchedule), want: best("b"),
	}),
	entry("to the node whose taint is a preference, whatever a comparison says", scenario{
		by: byTaints, nodes: nodes(marked("level", "800"), fixture.Node("b").Taint("level", "999", v1.TaintEffectPreferNoSchedule)),
		pod: compares("level", above, "900", v1.TaintEffectPreferNoSchedule), want: best("b"),
	}),
	entry("to the one node of five that has its large image", scenario{
		by: byImages, nodes: append(square(), fixture.Node("e").Image(3<<30, "registry.test/large:v1")),
		pod: fixture.Pod("new").Image("registry.test/large:v1"), want: best("e"),
	}),
	entry("to the emptiest of the nodes that it may have", scenario{
		by: bySpread, nodes: square(closed), there: crowd("b", "c", "c", "d", "d", "d"),
		pod: spread(even(host, rather)), want: best("b"),
	}),
	entry("to the emptiest node of the zone that it must have", scenario{
		by: bySpread, nodes: square(closed), there: crowd("a", "a", "a", "a", "c", "d", "d"),
		pod: spread(even(host, rather), even(zone)), want: best("c"),
	}),
	entry("to the emptiest zone and node, those not counted that it does not select", scenario{
		by: bySpread, nodes: square(ssd, preferablyClosedSSD, ssd), there: crowd("a", "b", "b", "d"),
		pod: spread(even(zone, rather), even(host, rather)).NodeSelector("disk", "ssd"), want: best("c"),
	}),
	entry("to the emptiest zone of all and node of the open ones", scenario{
		by: bySpread, nodes: square(ssd, preferablyClosedSSD, ssd), there: crowd("a", "b", "b", "d"),
		pod: spread(even(zone, rather, everyNode), even(host, rather, openNodes)).NodeSelector("disk", "ssd"), want: best("c"),
	}),
	entry("to the node with the fewest of its version", scenario{
		by: bySpread, nodes: square(closed),
		there: append(crowd("c", "c", "d"), kin("x", "2").On("b"), kin("y", "2").On("d"), kin("z", "2").On("d")),
		pod:   spread(even(host, rather, sameVersion)).Label("version", "2"), want: best("c"),
	}),
	entry("to the node with the fewest of its application, which only a key names", scenario{
		by: bySpread, nodes: square(closed), there: crowd("b", "c", "c", "d", "d", "d"),
		pod: spread(even(host, rather, sameApp)), want: best("b"),
	}),
)

func preferablyClosedSSD(node *fixture.NodeBuilder) {
	ssd(node)
	node.Taint("team", "red", v1.TaintEffectPreferNoSchedule)
}

var _ = Describe("Pods of a Service that say nothing about it", func() {
	It("are spread over the zones of 300 nodes as evenly as can be", minute, func(ctx SpecContext) {
		const zones = 3
		service := fixture.Service("web", "app", "web")
		service.Spec.Ports = []v1.ServicePort{{Port: 80}}
		Expect(admin.Create(ctx, service)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, service)).To(Succeed()) })
		c := aCluster()
		Expect(cp.Nodes(ctx, 300, controlplane.NodeOptions{Zones: zones})).To(Succeed())
		c.comes(ctx, closedOff())
		var all v1.NodeList
		Expect(admin.List(ctx, &all)).To(Succeed())
		zoneOf := map[string]string{}
		for _, node := range all.Items {
			zoneOf[node.Name] = node.Labels[zone]
		}

		count := 0
		for _, more := range []int{3, 9, 15} {
			for range more {
				c.create(ctx, web(fmt.Sprint("web", count)).SchedulerName(bySpread))
				count++
			}
			By(fmt.Sprintf("%d pods, the same number in each zone", count))
			Eventually(byZone(ctx, zoneOf)).Should(Equal(map[string]int{
				"zone-0": count / zones, "zone-1": count / zones, "zone-2": count / zones,
			}))
		}
	})
})

// byZone counts the pods of the default namespace by their nodes' zones, unless
// one is not bound yet.
func byZone(ctx context.Context, zoneOf map[string]string) func(g Gomega) map[string]int {
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
