package generate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// focus is what makes a plugin refuse, and change its mind. Functions that are
// nil change nothing; a frequency of 0 stands for the usual one.
type focus struct {
	// pod and node give what the plugin looks at to a pod, and to a node.
	pod  func(*Generator, *v1.Pod)
	node func(*Generator, *v1.Node)
	// wish gives to a pod what the plugin scores by.
	wish func(*Generator, *v1.Pod)
	// args are the plugin's arguments, half the time.
	args func(*Generator) any
	// nodes is how many nodes there are at most.
	nodes []weighted[int]
	// crowd is how many percent of the pods crowd on one node, or on few.
	crowd int
	// judged and wishing are how many percent of the pods to look at are given
	// what the plugin filters and scores by.
	judged, wishing int
	// How often waiting pods change, nodes come and go, pods that have a node
	// come, change and go, and what is neither pod nor node changes.
	own, churn, pods, objects int
	// storage is how often storage changes; it does not unless it says so.
	storage int
}

// focusOn returns the focus of a plugin, the usual one where none is set.
func focusOn(plugin string) focus {
	f := focuses[plugin]
	if f.pod == nil {
		f.pod = func(*Generator, *v1.Pod) {}
	}
	if f.wish == nil {
		f.wish = func(*Generator, *v1.Pod) {}
	}
	if f.node == nil {
		f.node = func(*Generator, *v1.Node) {}
	}
	if f.nodes == nil {
		f.nodes = []weighted[int]{{5, 1}, {4, 2}, {2, 3}, {1, 5}}
	}
	for _, often := range []struct {
		field *int
		usual int
	}{{&f.own, 5}, {&f.churn, 3}, {&f.pods, 5}, {&f.objects, 1}, {&f.judged, 60}, {&f.wishing, 60}} {
		if *often.field == 0 {
			*often.field = often.usual
		}
	}
	return f
}

var focuses = map[string]focus{
	"SchedulingGates": {own: 40, pod: (*Generator).addGates},
	"NodeName":        {churn: 30, pod: (*Generator).nameNode},
	"NodeUnschedulable": {node: func(g *Generator, node *v1.Node) {
		node.Spec.Unschedulable = g.chance(60)
	}},
	"TaintToleration": {node: (*Generator).taintHard},
	"NodeAffinity": {
		judged: 35, wishing: 90,
		pod: func(g *Generator, pod *v1.Pod) {
			pick(g.dice, []func(*v1.Pod){g.addSelector, g.addRequired, g.addRequired, g.addName})(pod)
		},
		wish: (*Generator).addPreferred,
		node: (*Generator).relabelNode,
	},
	"NodePorts":            {judged: 85, pods: 20, pod: (*Generator).addCommonPorts},
	"NodeResourcesFit":     {pods: 10, judged: 10, pod: (*Generator).addLarge, node: (*Generator).resizeNode},
	"NodeDeclaredFeatures": {judged: 95, pod: (*Generator).addFeature, node: (*Generator).declareNode},
	"PodTopologySpread": {
		judged: 95, own: 8, pods: 12, objects: 14, crowd: 50, nodes: []weighted[int]{{4, 2}, {4, 3}, {2, 4}, {1, 5}},
		pod: (*Generator).addHardSpread, wish: (*Generator).addSoftSpread, args: (*Generator).hardDefault,
		node: func(g *Generator, node *v1.Node) {
			pick(g.dice, []func(*v1.Node){g.rezoneNode, g.taintNode, g.relabelNode})(node)
			if g.chance(25) {
				node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: taintKeys[0], Effect: v1.TaintEffectNoSchedule})
			}
		},
	},
	"VolumeRestrictions": {judged: 95, pods: 25, storage: 12, churn: 5, crowd: 40, pod: func(g *Generator, pod *v1.Pod) {
		pick(g.dice, []func(*v1.Pod){g.addDisk, g.addDisk, g.addClaim, func(pod *v1.Pod) { g.addClaimOf(pod, "own") }})(pod)
	}},
	"VolumeBinding": {judged: 95, storage: 30, churn: 5, pod: func(g *Generator, pod *v1.Pod) {
		if pod.Spec.Volumes = nil; g.chance(65) {
			g.addClaimOf(pod, pick(g.dice, claimNames[4:]))
		} else {
			g.addClaim(pod)
		}
	}, node: (*Generator).rezoneNode},
	"NodeVolumeLimits": {judged: 95, pods: 20, storage: 60, churn: 5, crowd: 30, pod: func(g *Generator, pod *v1.Pod) {
		g.addVolumes(pod)
		g.addClaimOf(pod, pick(g.dice, claimNames[:3]))
	}},
	"VolumeZone": {judged: 95, storage: 30, churn: 5, pod: (*Generator).addClaim, node: (*Generator).rezoneNode},
	"InterPodAffinity": {
		judged: 25, wishing: 85, pods: 12, objects: 6, nodes: []weighted[int]{{2, 1}, {4, 2}, {3, 3}, {1, 5}},
		pod:  func(g *Generator, pod *v1.Pod) { g.addCompany(pod, 75) },
		wish: func(g *Generator, pod *v1.Pod) { g.addCompany(pod, 10) },
		node: (*Generator).rezoneNode,
	},
}

func (g *Generator) addGates(pod *v1.Pod) {
	for _, gate := range apps[:g.between(1, 3)] {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
	}
}

// nameNode lets the pod name a node, most often one that may come back.
func (g *Generator) nameNode(pod *v1.Pod) {
	if pod.Spec.NodeName = g.someNode(); len(g.gone) > 0 && g.chance(60) {
		pod.Spec.NodeName = pick(g.dice, g.gone)
	}
}

// taintHard gives the node taints, most often, of which some only advise.
func (g *Generator) taintHard(node *v1.Node) {
	node.Spec.Taints = nil
	for range g.IntN(4) {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
			Key: pick(g.dice, taintKeys), Value: pick(g.dice, taintValues),
			Effect: draw(g.dice, []weighted[v1.TaintEffect]{{2, effects[0]}, {6, effects[1]}, {1, effects[2]}}),
		})
	}
}

// addCommonPorts adds host ports that others are likely to want.
func (g *Generator) addCommonPorts(pod *v1.Pod) {
	pod.Spec.Containers = append(pod.Spec.Containers, g.container("p", 0))
	g.addHostPorts(pod)
	for i := range pod.Spec.Containers {
		for j := range pod.Spec.Containers[i].Ports {
			if port := &pod.Spec.Containers[i].Ports[j]; g.chance(70) {
				port.HostIP, port.Protocol = "", ""
			}
		}
	}
}

func (g *Generator) addLarge(pod *v1.Pod) {
	large := g.container("large", 0)
	large.Resources.Requests = fixture.Resources("cpu", pick(g.dice, []string{"1", "2", "3", "4"}))
	pod.Spec.Containers = append(pod.Spec.Containers, large)
}

// addHardSpread spreads the pod by constraints of its own or by what owns and
// selects it. Most such pods are in one namespace, so that there is something
// to spread.
func (g *Generator) addHardSpread(pod *v1.Pod) {
	if g.chance(80) {
		pod.Namespace, pod.UID = namespaces[0], types.UID(namespaces[0]+"/"+pod.Name)
	}
	if g.chance(45) {
		pod.Spec.TopologySpreadConstraints = nil
		g.addOwner(pod)
		return
	}
	g.addSpread(pod)
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		c.WhenUnsatisfiable = v1.DoNotSchedule
		if g.chance(30) {
			honor, domains := v1.NodeInclusionPolicyHonor, int32(g.between(1, 3))
			c.NodeTaintsPolicy, c.MinDomains = &honor, &domains
		}
		if g.chance(60) {
			c.MaxSkew, c.LabelSelector = 1, fixture.LabelSelector("app", pod.Labels["app"])
		}
	}
}

// addSoftSpread adds constraints that are wishes.
func (g *Generator) addSoftSpread(pod *v1.Pod) {
	hard := len(pod.Spec.TopologySpreadConstraints)
	g.addSpread(pod)
	for i := range pod.Spec.TopologySpreadConstraints[hard:] {
		pod.Spec.TopologySpreadConstraints[hard+i].WhenUnsatisfiable = v1.ScheduleAnyway
	}
}

// hardDefault are arguments by which pods are spread strictly when they say
// nothing about it.
func (g *Generator) hardDefault() any {
	c := fixture.HardSpreadConstraint(pick(g.dice, topologies[1:3]), "", "")
	c.LabelSelector = nil
	return configv1.PodTopologySpreadArgs{
		DefaultingType: configv1.ListDefaulting, DefaultConstraints: []v1.TopologySpreadConstraint{c},
	}
}
