package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// twoNodes are two nodes of one region and one zone, each with 1Gi of memory.
func twoNodes() []*fixture.NodeBuilder {
	node := func(name string) *fixture.NodeBuilder {
		return fixture.Node(name).Label(region, "north").Zone("z1").Capacity("memory", "1Gi")
	}
	return nodes(node("a"), node("b"))
}

// dbPod returns a pod with the label app=db on a node.
func dbPod(node string) *fixture.PodBuilder { return fixture.Pod("db").Label("app", "db").On(node) }

var _ = table("A pod with required pod affinity",
	entry("is invalid for the API server when its selector is not valid", scenario{
		nodes: twoNodes(),
		pod:   fixture.Pod("new").RequirePodAffinity(affinityTerm(region, notExists("app", "db"))),
		want:  invalid,
	}),
	entry("fits on no node while no pod matches", scenario{
		nodes: twoNodes(),
		pod:   fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))),
		want:  unschedulable("2 " + affinityMismatch),
	}),
	entry("fits where a pod has one of the values", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db", "cache"))),
		want: boundTo("a", "b"),
	}),
	entry("fits where a pod has none of the values", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(affinityTerm(region, notIn("app", "queue", "cache"))),
		want: boundTo("a", "b"),
	}),
	entry("fits on one node when the domain is the host", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(affinityTerm(hostname, in("app", "db"))),
		want: boundTo("a"),
	}),
	entry("fits on no node when the pods are in a namespace that the term does not name", scenario{
		nodes: twoNodes(), existing: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod: func() *fixture.PodBuilder {
			term := affinityTerm(region, in("app", "db"))
			term.Namespaces = []string{red}
			return fixture.Pod("new").RequirePodAffinity(term)
		}(),
		want: unschedulable("2 " + affinityMismatch),
	}),
	entry("fits on no node when the pods have another label", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").Label("app", "db").RequirePodAffinity(affinityTerm(region, in("app", "queue", "cache"))),
		want: unschedulable("2 " + affinityMismatch),
	}),
	entry("fits where all requirements of all terms are met", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, exists("app"), notExists("old"))).
			RequirePodAffinity(affinityTerm(region, in("app", "db"), notIn("app", "cache"))),
		want: boundTo("a", "b"),
	}),
	entry("fits on no node when one requirement of one term is not met", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, exists("app"), notExists("old"))).
			RequirePodAffinity(affinityTerm(region, in("app", "queue"), notIn("app", "cache"))),
		want: unschedulable("2 " + affinityMismatch),
	}),
	entry("is not the first of its group when its term does not match itself", scenario{
		nodes: twoNodes(), existing: pods(dbPod("gone")),
		pod:  fixture.Pod("new").Label("app", "db").RequirePodAffinity(affinityTerm(region, notIn("app", "db", "cache"))),
		want: unschedulable("2 " + affinityMismatch),
	}),
	entry("is the first of its group anywhere, and the next pod goes to its node", scenario{
		nodes: twoNodes(), existing: pods(fixture.Pod("one").Label("tier", "1").On("a"), fixture.Pod("two").Label("tier", "1").On("b")),
		pod:   fixture.Pod("new").Label("app", "db").RequirePodAffinity(affinityTerm(hostname, in("app", "db"))),
		want:  boundTo("a", "b"),
		steps: []step{addPodBeside("new", fixture.Pod("next").Label("app", "db").RequirePodAffinity(affinityTerm(hostname, in("app", "db"))))},
	}),
	entry("fits where the pods are in a namespace that the term selects by label", scenario{
		nodes: twoNodes(), existing: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod:  fixture.Pod(red + "/new").RequirePodAffinity(inTeam(affinityTerm(region, in("app", "db")), blue)),
		want: boundTo("a", "b"),
	}),
	entry("fits on no node when the pods are in a namespace that the term does not select", scenario{
		nodes: twoNodes(), existing: pods(fixture.Pod(red+"/db").Label("app", "db").On("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(inTeam(affinityTerm(region, in("app", "db")), blue)),
		want: unschedulable("2 " + affinityMismatch),
	}),
	entry("and matchLabelKeys fits on no node when the node of the matching pod is full", scenario{
		nodes: twoNodes(), existing: pods(
			versionedPod("full", "1").On("b").Requests("memory", "1Gi"), versionedPod("x", "2").On("a"), versionedPod("y", "3").On("a")),
		pod:  versionedPod("new", "1").Requests("memory", "1Gi").RequirePodAffinity(matchKey(affinityTerm(hostname, exists("app")), "version")),
		want: unschedulable("1 Insufficient memory, 1 " + affinityMismatch),
	}),
	entry("and mismatchLabelKeys fits on no node when the node of the matching pod is full", scenario{
		nodes: twoNodes(), existing: pods(
			versionedPod("full", "2").On("b").Requests("memory", "1Gi"), versionedPod("x", "1").On("a"), versionedPod("y", "1").On("a")),
		pod:  versionedPod("new", "1").Requests("memory", "1Gi").RequirePodAffinity(mismatchKey(affinityTerm(hostname, exists("app")), "version")),
		want: unschedulable("1 Insufficient memory, 1 " + affinityMismatch),
	}),
)

// versionedPod returns a pod with app=web and a version.
func versionedPod(name, version string) *fixture.PodBuilder {
	return webPod(name).Label("version", version)
}

// antiAffinityPod returns a pod on node a with required anti-affinity.
func antiAffinityPod(term v1.PodAffinityTerm) *fixture.PodBuilder {
	return dbPod("a").RequirePodAntiAffinity(term)
}

var _ = table("A pod with required pod anti-affinity",
	entry("fits where its affinity matches and its anti-affinity does not", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))).
			RequirePodAntiAffinity(affinityTerm(hostname, in("app", "queue", "cache"))),
		want: boundTo("a", "b"),
	}),
	entry("fits where the anti-affinity of the existing pod does not match it", scenario{
		nodes: twoNodes(), existing: pods(antiAffinityPod(affinityTerm(hostname, in("app", "queue", "cache")))),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))).
			RequirePodAntiAffinity(affinityTerm(hostname, in("app", "queue", "cache"))),
		want: boundTo("a", "b"),
	}),
	entry("fits on no node when affinity and anti-affinity match the same pod", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod: fixture.Pod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))).
			RequirePodAntiAffinity(affinityTerm(zone, in("app", "db"))),
		want: unschedulable("2 " + antiAffinityMismatch),
	}),
	entry("fits on no node when the anti-affinity of the existing pod matches it, whatever its own terms are", scenario{
		nodes: twoNodes(), existing: pods(antiAffinityPod(affinityTerm(zone, in("app", "web")))),
		pod: webPod("new").RequirePodAffinity(affinityTerm(region, in("app", "db"))).
			RequirePodAntiAffinity(affinityTerm(hostname, in("app", "queue"))),
		want: unschedulable("2 " + existingAntiAffinity),
	}),
	entry("fits on no node when it has no terms and the anti-affinity of the existing pod matches it", scenario{
		nodes: twoNodes(), existing: pods(antiAffinityPod(affinityTerm(zone, in("app", "web", "db")))),
		pod:  webPod("new"),
		want: unschedulable("2 " + existingAntiAffinity),
	}),
	entry("fits anywhere when it has no terms and the anti-affinity of the existing pod does not match it", scenario{
		nodes: twoNodes(), existing: pods(antiAffinityPod(affinityTerm(zone, notIn("app", "web", "db")))),
		pod:  webPod("new"),
		want: boundTo("a", "b"),
	}),
	entry("fits on no node in the domain that it selects", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").NodeSelector(region, "north").RequirePodAntiAffinity(affinityTerm(region, in("app", "db"))),
		want: unschedulable("2 " + antiAffinityMismatch),
	}),
	entry("fits on the node without a matching pod when the domain is the host", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a")),
		pod:  fixture.Pod("new").RequirePodAntiAffinity(affinityTerm(hostname, in("app", "db"))),
		want: boundTo("b"),
	}),
	entry("fits on no node when each node has a matching pod", scenario{
		nodes: twoNodes(), existing: pods(dbPod("a"), fixture.Pod("db2").Label("app", "db").On("b")),
		pod:  fixture.Pod("new").RequirePodAntiAffinity(affinityTerm(hostname, in("app", "db"))),
		want: unschedulable("2 " + antiAffinityMismatch),
	}),
	entry("and matchLabelKeys fits where pods have other values", scenario{
		nodes: twoNodes(), existing: pods(versionedPod("x", "2").On("a"), versionedPod("y", "3").On("a")),
		pod:  versionedPod("new", "1").RequirePodAntiAffinity(matchKey(affinityTerm(zone, exists("app")), "version")),
		want: boundTo("a", "b"),
	}),
	entry("and matchLabelKeys fits on no node where a pod has the same value", scenario{
		nodes: twoNodes(), existing: pods(versionedPod("x", "1").On("a")),
		pod:  versionedPod("new", "1").RequirePodAntiAffinity(matchKey(affinityTerm(zone, exists("app")), "version")),
		want: unschedulable("2 " + antiAffinityMismatch),
	}),
	entry("and mismatchLabelKeys fits where pods have the same value", scenario{
		nodes: twoNodes(), existing: pods(versionedPod("x", "1").On("a"), versionedPod("y", "1").On("a")),
		pod:  versionedPod("new", "1").RequirePodAntiAffinity(mismatchKey(affinityTerm(zone, exists("app")), "version")),
		want: boundTo("a", "b"),
	}),
	entry("and mismatchLabelKeys fits on no node where a pod has another value", scenario{
		nodes: twoNodes(), existing: pods(versionedPod("x", "2").On("a")),
		pod:  versionedPod("new", "1").RequirePodAntiAffinity(mismatchKey(affinityTerm(zone, exists("app")), "version")),
		want: unschedulable("2 " + antiAffinityMismatch),
	}),
)
