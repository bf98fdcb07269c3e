package generate

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/test/support/fixture"
)

// focus says how to generate pods and nodes that a plugin refuses, and changes after which it
// does not. Functions that are nil change nothing; a frequency of 0 stands for the default.
type focus struct {
	// pod and node set the fields that the plugin filters by.
	pod  func(*Generator, *v1.Pod)
	node func(*Generator, *v1.Node)
	// scored sets the fields of a pod that the plugin scores by.
	scored func(*Generator, *v1.Pod)
	// args returns the plugin's arguments, for half of the profiles.
	args func(*Generator) any
	// nodes is the maximal number of nodes.
	nodes []weighted[int]
	// sameNode is the percentage of pods that are on one node, or on few.
	sameNode int
	// filteredPercent and scoredPercent are the percentages of pods with the fields that the
	// plugin filters and scores by.
	filteredPercent, scoredPercent int
	// Frequencies: of changes of pending pods, of nodes added and removed, of bound pods
	// added, changed and deleted, and of changes of other objects.
	own, churn, pods, objects int
	// storage, attachments and devices are the frequencies of changes of storage, of
	// VolumeAttachments that matter, and of devices; 0 is none.
	storage, attachments, devices int
}

// focusOn returns the focus of a plugin, with defaults.
func focusOn(plugin string) focus {
	f := focuses[plugin]
	if f.pod == nil {
		f.pod = func(*Generator, *v1.Pod) {}
	}
	if f.scored == nil {
		f.scored = func(*Generator, *v1.Pod) {}
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
	}{{&f.own, 5}, {&f.churn, 3}, {&f.pods, 5}, {&f.objects, 1}, {&f.filteredPercent, 60}, {&f.scoredPercent, 60}} {
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
		filteredPercent: 35, scoredPercent: 90,
		pod: func(g *Generator, pod *v1.Pod) {
			pick(g.random, []func(*v1.Pod){g.addSelector, g.addRequired, g.addRequired, g.addName})(pod)
		},
		scored: (*Generator).addPreferred,
		node:   (*Generator).relabelNode,
	},
	"NodePorts": {filteredPercent: 85, pods: 20, pod: (*Generator).addCommonPorts},
	"NodeResourcesFit": {pods: 10, filteredPercent: 10, devices: 8, node: (*Generator).resizeNode, pod: func(g *Generator, pod *v1.Pod) {
		if g.chance(25) {
			g.addExtended(pod)
		} else {
			g.addLarge(pod)
		}
	}},
	"NodeDeclaredFeatures": {filteredPercent: 95, pod: (*Generator).addFeature, node: (*Generator).declareNode},
	"PodTopologySpread": {
		filteredPercent: 95, own: 8, pods: 12, objects: 14, sameNode: 50, nodes: []weighted[int]{{4, 2}, {4, 3}, {2, 4}, {1, 5}},
		pod: (*Generator).addHardSpread, scored: (*Generator).addSoftSpread, args: (*Generator).hardDefault,
		node: func(g *Generator, node *v1.Node) {
			pick(g.random, []func(*v1.Node){g.rezoneNode, g.taintNode, g.relabelNode})(node)
			if g.chance(25) {
				node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: taintKeys[0], Effect: v1.TaintEffectNoSchedule})
			}
		},
	},
	"VolumeRestrictions": {filteredPercent: 95, pods: 25, storage: 12, churn: 5, sameNode: 40, pod: func(g *Generator, pod *v1.Pod) {
		pick(g.random, []func(*v1.Pod){g.addDisk, g.addDisk, g.addClaim, func(pod *v1.Pod) { g.addClaimOf(pod, "own") }})(pod)
	}},
	"VolumeBinding": {filteredPercent: 95, storage: 30, churn: 5, pod: func(g *Generator, pod *v1.Pod) {
		if pod.Spec.Volumes = nil; g.chance(65) {
			g.addClaimOf(pod, pick(g.random, claimNames[4:]))
		} else {
			g.addClaim(pod)
		}
	}, node: (*Generator).rezoneNode},
	"NodeVolumeLimits": {filteredPercent: 95, pods: 20, storage: 60, attachments: 20, churn: 5, sameNode: 30, pod: func(g *Generator, pod *v1.Pod) {
		g.addVolumes(pod)
		g.addClaimOf(pod, pick(g.random, claimNames[:3]))
	}},
	"VolumeZone":       {filteredPercent: 95, storage: 30, churn: 5, pod: (*Generator).addClaim, node: (*Generator).rezoneNode},
	"DynamicResources": {filteredPercent: 95, devices: 40, churn: 5, pod: (*Generator).addDevices, node: (*Generator).resizeOrRezone},
	"InterPodAffinity": {
		filteredPercent: 25, scoredPercent: 85, pods: 12, objects: 6, nodes: []weighted[int]{{2, 1}, {4, 2}, {3, 3}, {1, 5}},
		pod:    func(g *Generator, pod *v1.Pod) { g.addPodAffinity(pod, 75) },
		scored: func(g *Generator, pod *v1.Pod) { g.addPodAffinity(pod, 10) },
		node:   (*Generator).rezoneNode,
	},
}

func (g *Generator) resizeOrRezone(node *v1.Node) {
	pick(g.random, []func(*v1.Node){g.resizeNode, g.rezoneNode})(node)
}

func (g *Generator) addGates(pod *v1.Pod) {
	for _, gate := range apps[:g.between(1, 3)] {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
	}
}

// nameNode sets the pod's nodeName, most often to a deleted node that may return.
func (g *Generator) nameNode(pod *v1.Pod) {
	if pod.Spec.NodeName = g.someNode(); len(g.deletedNodes) > 0 && g.chance(60) {
		pod.Spec.NodeName = pick(g.random, g.deletedNodes)
	}
}

// taintHard gives the node taints, some of them PreferNoSchedule.
func (g *Generator) taintHard(node *v1.Node) {
	node.Spec.Taints = nil
	for range g.IntN(4) {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
			Key: pick(g.random, taintKeys), Value: pick(g.random, taintValues),
			Effect: draw(g.random, []weighted[v1.TaintEffect]{{2, effects[0]}, {6, effects[1]}, {1, effects[2]}}),
		})
	}
}

// addCommonPorts adds host ports that other pods use, too.
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
	large.Resources.Requests = fixture.Resources("cpu", pick(g.random, []string{"1", "2", "3", "4"}))
	pod.Spec.Containers = append(pod.Spec.Containers, large)
}

// addHardSpread spreads the pod by constraints of its own, or by default constraints and its
// owner. Most such pods are in one namespace, so that there are pods to count.
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

// addSoftSpread adds constraints with ScheduleAnyway.
func (g *Generator) addSoftSpread(pod *v1.Pod) {
	hard := len(pod.Spec.TopologySpreadConstraints)
	g.addSpread(pod)
	for i := range pod.Spec.TopologySpreadConstraints[hard:] {
		pod.Spec.TopologySpreadConstraints[hard+i].WhenUnsatisfiable = v1.ScheduleAnyway
	}
}

// hardDefault are arguments with a default constraint that has DoNotSchedule.
func (g *Generator) hardDefault() any {
	c := fixture.HardSpreadConstraint(pick(g.random, topologies[1:3]), "", "")
	c.LabelSelector = nil
	return configv1.PodTopologySpreadArgs{
		DefaultingType: configv1.ListDefaulting, DefaultConstraints: []v1.TopologySpreadConstraint{c},
	}
}
