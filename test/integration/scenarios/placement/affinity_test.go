package placement

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// pair are two nodes of one area and one zone, each with a gibibyte.
func pair() []*fixture.NodeBuilder {
	node := func(name string) *fixture.NodeBuilder {
		return fixture.Node(name).Label(area, "north").Zone("z1").Capacity("memory", "1Gi")
	}
	return nodes(node("a"), node("b"))
}

// db is a pod that carries app=db and is on a node.
func db(node string) *fixture.PodBuilder { return fixture.Pod("db").Label("app", "db").On(node) }

var _ = table("A pod that must be near others",
	entry("is not taken by the API server when its selector makes no sense", scenario{
		nodes: pair(),
		pod:   fixture.Pod("new").RequirePodAffinity(by(area, lacks("app", "db"))),
		want:  invalid,
	}),
	entry("fits nowhere while there is none of them", scenario{
		nodes: pair(),
		pod:   fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))),
		want:  refused("2 " + notNear),
	}),
	entry("goes where one has one of the values", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db", "cache"))),
		want: on("a", "b"),
	}),
	entry("goes where one has none of the values", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(by(area, notIn("app", "queue", "cache"))),
		want: on("a", "b"),
	}),
	entry("goes to the very node where that is the domain", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(by(host, in("app", "db"))),
		want: on("a"),
	}),
	entry("fits nowhere when they are in a namespace that is not named", scenario{
		nodes: pair(), there: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod: func() *fixture.PodBuilder {
			term := by(area, in("app", "db"))
			term.Namespaces = []string{red}
			return fixture.Pod("new").RequirePodAffinity(term)
		}(),
		want: refused("2 " + notNear),
	}),
	entry("fits nowhere when who is there has another label", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").Label("app", "db").RequirePodAffinity(by(area, in("app", "queue", "cache"))),
		want: refused("2 " + notNear),
	}),
	entry("goes where all requirements of all terms are met", scenario{
		nodes: pair(), there: pods(db("a")),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, has("app"), lacks("old"))).
			RequirePodAffinity(by(area, in("app", "db"), notIn("app", "cache"))),
		want: on("a", "b"),
	}),
	entry("fits nowhere when one requirement of one term is not met", scenario{
		nodes: pair(), there: pods(db("a")),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, has("app"), lacks("old"))).
			RequirePodAffinity(by(area, in("app", "queue"), notIn("app", "cache"))),
		want: refused("2 " + notNear),
	}),
	entry("is not the first of its kind when its term does not mean itself", scenario{
		nodes: pair(), there: pods(db("gone")),
		pod:  fixture.Pod("new").Label("app", "db").RequirePodAffinity(by(area, notIn("app", "db", "cache"))),
		want: refused("2 " + notNear),
	}),
	entry("is the first of its kind anywhere, and the next one goes there", scenario{
		nodes: pair(), there: pods(fixture.Pod("one").Label("tier", "1").On("a"), fixture.Pod("two").Label("tier", "1").On("b")),
		pod:  fixture.Pod("new").Label("app", "db").RequirePodAffinity(by(host, in("app", "db"))),
		want: on("a", "b"),
		then: []step{joinsThe("new", fixture.Pod("next").Label("app", "db").RequirePodAffinity(by(host, in("app", "db"))))},
	}),
	entry("goes where they are in a namespace that is selected by label", scenario{
		nodes: pair(), there: pods(fixture.Pod(blue+"/db").Label("app", "db").On("a")),
		pod:  fixture.Pod(red + "/new").RequirePodAffinity(within(by(area, in("app", "db")), blue)),
		want: on("a", "b"),
	}),
	entry("fits nowhere when they are in a namespace that is not selected", scenario{
		nodes: pair(), there: pods(fixture.Pod(red+"/db").Label("app", "db").On("a")),
		pod:  fixture.Pod("new").RequirePodAffinity(within(by(area, in("app", "db")), blue)),
		want: refused("2 " + notNear),
	}),
	entry("and like it fits nowhere when who is like it has no room to give", scenario{
		nodes: pair(), there: pods(
			kin("full", "1").On("b").Requests("memory", "1Gi"), kin("x", "2").On("a"), kin("y", "3").On("a")),
		pod:  kin("new", "1").Requests("memory", "1Gi").RequirePodAffinity(alike(by(host, has("app")), "version")),
		want: refused("1 Insufficient memory, 1 " + notNear),
	}),
	entry("and unlike it fits nowhere when who is unlike it has no room to give", scenario{
		nodes: pair(), there: pods(
			kin("full", "2").On("b").Requests("memory", "1Gi"), kin("x", "1").On("a"), kin("y", "1").On("a")),
		pod:  kin("new", "1").Requests("memory", "1Gi").RequirePodAffinity(unlike(by(host, has("app")), "version")),
		want: refused("1 Insufficient memory, 1 " + notNear),
	}),
)

// kin is a pod of one application in some version.
func kin(name, version string) *fixture.PodBuilder {
	return web(name).Label("version", version)
}

// hermit is a pod on node a that wants nobody near who meets term.
func hermit(term v1.PodAffinityTerm) *fixture.PodBuilder { return db("a").RequirePodAntiAffinity(term) }

var _ = table("A pod that must be apart from others",
	entry("goes near the ones and apart from the others that it names", scenario{
		nodes: pair(), there: pods(db("a")),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))).
			RequirePodAntiAffinity(by(host, in("app", "queue", "cache"))),
		want: on("a", "b"),
	}),
	entry("goes there also when who is there does not mind it", scenario{
		nodes: pair(), there: pods(hermit(by(host, in("app", "queue", "cache")))),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))).
			RequirePodAntiAffinity(by(host, in("app", "queue", "cache"))),
		want: on("a", "b"),
	}),
	entry("fits nowhere when it must be near and apart from the same", scenario{
		nodes: pair(), there: pods(db("a")),
		pod: fixture.Pod("new").RequirePodAffinity(by(area, in("app", "db"))).
			RequirePodAntiAffinity(by(zone, in("app", "db"))),
		want: refused("2 " + notApart),
	}),
	entry("fits nowhere when who is there minds it, whatever it wants itself", scenario{
		nodes: pair(), there: pods(hermit(by(zone, in("app", "web")))),
		pod: web("new").RequirePodAffinity(by(area, in("app", "db"))).
			RequirePodAntiAffinity(by(host, in("app", "queue"))),
		want: refused("2 " + notWanted),
	}),
	entry("fits nowhere when it wants nothing itself and who is there minds it", scenario{
		nodes: pair(), there: pods(hermit(by(zone, in("app", "web", "db")))),
		pod:  web("new"),
		want: refused("2 " + notWanted),
	}),
	entry("goes anywhere when it wants nothing itself and who is there minds others", scenario{
		nodes: pair(), there: pods(hermit(by(zone, notIn("app", "web", "db")))),
		pod:  web("new"),
		want: on("a", "b"),
	}),
	entry("fits nowhere in the domain that it selects", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").NodeSelector(area, "north").RequirePodAntiAffinity(by(area, in("app", "db"))),
		want: refused("2 " + notApart),
	}),
	entry("goes to the node without one where nodes are the domains", scenario{
		nodes: pair(), there: pods(db("a")),
		pod:  fixture.Pod("new").RequirePodAntiAffinity(by(host, in("app", "db"))),
		want: on("b"),
	}),
	entry("fits nowhere when each node has one", scenario{
		nodes: pair(), there: pods(db("a"), fixture.Pod("db2").Label("app", "db").On("b")),
		pod:  fixture.Pod("new").RequirePodAntiAffinity(by(host, in("app", "db"))),
		want: refused("2 " + notApart),
	}),
	entry("and like it goes among those that are unlike it", scenario{
		nodes: pair(), there: pods(kin("x", "2").On("a"), kin("y", "3").On("a")),
		pod:  kin("new", "1").RequirePodAntiAffinity(alike(by(zone, has("app")), "version")),
		want: on("a", "b"),
	}),
	entry("and like it fits nowhere among those that are like it", scenario{
		nodes: pair(), there: pods(kin("x", "1").On("a")),
		pod:  kin("new", "1").RequirePodAntiAffinity(alike(by(zone, has("app")), "version")),
		want: refused("2 " + notApart),
	}),
	entry("and unlike it goes among those that are like it", scenario{
		nodes: pair(), there: pods(kin("x", "1").On("a"), kin("y", "1").On("a")),
		pod:  kin("new", "1").RequirePodAntiAffinity(unlike(by(zone, has("app")), "version")),
		want: on("a", "b"),
	}),
	entry("and unlike it fits nowhere among those that are unlike it", scenario{
		nodes: pair(), there: pods(kin("x", "2").On("a")),
		pod:  kin("new", "1").RequirePodAntiAffinity(unlike(by(zone, has("app")), "version")),
		want: refused("2 " + notApart),
	}),
)
