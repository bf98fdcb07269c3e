package generate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	csiplugins "k8s.io/csi-translation-lib/plugins"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// addNode adds a node: a new one, or one that was deleted before.
func (g *Generator) addNode() log.Op {
	name := fmt.Sprintf("n%d", len(g.nodes)+len(g.deletedNodes))
	if len(g.deletedNodes) > 0 && g.chance(50) {
		i := g.IntN(len(g.deletedNodes))
		name = g.deletedNodes[i]
		g.deletedNodes = slices.Delete(g.deletedNodes, i, i+1)
	}
	node := fixture.Node(name).Obj()
	for _, change := range []func(*v1.Node){g.resizeNode, g.relabelNode, g.rezoneNode, g.taintNode, g.setImages, g.cordonNode, g.declareNode} {
		change(node)
	}
	if g.preempting != nil && g.chance(60) {
		makeUniform(node)
	}
	g.nodes[name] = node
	g.nodeNames = append(g.nodeNames, name)
	if g.chance(70) {
		g.prerequisites = append(g.prerequisites, log.Op{Kind: log.Apply, Object: g.driversOn(name)})
	}
	return log.Op{Kind: log.Apply, Object: node.DeepCopy()}
}

func (g *Generator) nodeAdded() (log.Op, bool) { return g.addNode(), true }

// removeNode deletes a node; the pods on it are deleted later, or never.
func (g *Generator) removeNode() (log.Op, bool) {
	if len(g.nodeNames) < 2 && !g.chance(10) || len(g.nodeNames) == 0 {
		return log.Op{}, false
	}
	i := g.IntN(len(g.nodeNames))
	node := g.nodes[g.nodeNames[i]]
	delete(g.nodes, node.Name)
	g.nodeNames = slices.Delete(g.nodeNames, i, i+1)
	g.deletedNodes = append(g.deletedNodes, node.Name)
	return log.Op{Kind: log.Delete, Object: node.DeepCopy()}, true
}

// changeNode changes one or two properties of a node.
func (g *Generator) changeNode() (log.Op, bool) {
	if len(g.nodeNames) == 0 {
		return log.Op{}, false
	}
	node := g.nodes[pick(g.random, g.nodeNames)].DeepCopy()
	for range g.between(1, 2) {
		draw(g.random, []weighted[func(*v1.Node)]{
			{3, g.resizeNode}, {3, g.relabelNode}, {3, g.rezoneNode}, {3, g.taintNode}, {4, g.setImages}, {2, g.cordonNode}, {1, g.declareNode},
			{1, func(*v1.Node) {}}, // a heartbeat
		})(node)
	}
	g.nodes[node.Name] = node
	return log.Op{Kind: log.Apply, Object: node.DeepCopy()}, true
}

func (g *Generator) resizeNode(node *v1.Node) {
	cpus := []string{"2", "4", "8", "16", "3920m", "7910m", "1500m", "0"}
	memories := []string{"4Gi", "8Gi", "32Gi", "7637Mi", "15987654321", "500M", "0"}
	offers := fixture.Resources(
		"cpu", cpus[min(g.IntN(40), g.IntN(len(cpus)))],
		"memory", memories[min(g.IntN(40), g.IntN(len(memories)))],
		"pods", pick(g.random, []string{"4", "6", "10", "30", "110"}),
	)
	if g.chance(70) {
		offers[v1.ResourceEphemeralStorage] = resource.MustParse(pick(g.random, []string{"10Gi", "40Gi", "100Gi", "1"}))
	}
	for _, name := range some(g.random, extended, 2) {
		offers[name] = resource.MustParse(pick(g.random, []string{"0", "1", "4", "8"}))
	}
	node.Status.Capacity, node.Status.Allocatable = offers.DeepCopy(), offers
}

func (g *Generator) relabelNode(node *v1.Node) {
	for key, values := range sorted(labels) {
		delete(node.Labels, key)
		if g.chance(60) {
			node.Labels[key] = pick(g.random, values)
		}
	}
}

// rezoneNode changes the topology labels. That of the EBS driver is drawn on its own, so that it
// matters on which nodes the in-tree plugin is migrated.
func (g *Generator) rezoneNode(node *v1.Node) {
	for key, values := range sorted(map[string][]string{
		v1.LabelTopologyZone: zones, v1.LabelTopologyRegion: regions, Rack: racks,
		v1.LabelFailureDomainBetaZone: zones, v1.LabelFailureDomainBetaRegion: regions,
		csiplugins.AWSEBSTopologyKey: zones,
	}) {
		delete(node.Labels, key)
		likely := 80
		if key == v1.LabelFailureDomainBetaZone || key == v1.LabelFailureDomainBetaRegion {
			likely = 10
		}
		if g.chance(likely) {
			node.Labels[key] = pick(g.random, values)
		}
	}
}

func (g *Generator) taintNode(node *v1.Node) {
	node.Spec.Taints = nil
	if g.chance(65) {
		return
	}
	for range g.between(1, 3) {
		node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
			Key: pick(g.random, taintKeys), Value: pick(g.random, taintValues),
			Effect: draw(g.random, []weighted[v1.TaintEffect]{{2, effects[0]}, {6, effects[1]}, {1, effects[2]}}),
		})
	}
}

// setImages changes the images of a node. Sometimes a node reports another size than the
// others do.
func (g *Generator) setImages(node *v1.Node) {
	node.Status.Images = nil
	for i, name := range images {
		if !g.chance(35) {
			continue
		}
		size := int64(i+1) * 180 << 20
		if g.chance(10) {
			size += int64(g.IntN(900 << 20))
		}
		names := []string{name}
		if g.chance(10) {
			names = append(names, pick(g.random, images))
		}
		node.Status.Images = append(node.Status.Images, v1.ContainerImage{Names: names, SizeBytes: size})
	}
}

func (g *Generator) cordonNode(node *v1.Node) { node.Spec.Unschedulable = g.chance(8) }

func (g *Generator) declareNode(node *v1.Node) {
	node.Status.DeclaredFeatures = some(g.random, features, len(features))
	if g.chance(40) {
		node.Status.DeclaredFeatures = slices.Clone(features)
	}
	slices.Sort(node.Status.DeclaredFeatures)
}

// kube-scheduler miscounts the claims of pods on nodes that do not exist: claims of a node
// that is deleted before its pods are subtracted twice, with the node and with each pod, and a
// pod whose node does not exist yet is counted until nodes are listed anew. A claim in use is
// then taken to be free, or the reverse, and a negative count changes the order of the nodes.
// Berth counts correctly (docs/parity.md), so histories that are compared have no such pods.

// usesClaims says whether kube-scheduler counts claims of the pod.
func usesClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// someNodeFor is someNode for a pod that is bound to it.
func (g *Generator) someNodeFor(pod *v1.Pod) string {
	switch {
	case !usesClaims(pod):
		return g.someNode()
	case len(g.nodeNames) == 0:
		return ""
	}
	return pick(g.random, g.nodeNames)
}

// drainNode is removeNode after the node's pods with claims are deleted.
func (g *Generator) drainNode() (log.Op, bool) {
	op, ok := g.removeNode()
	if !ok {
		return op, false
	}
	for _, list := range []*[]*v1.Pod{&g.bound, &g.assumed} {
		*list = slices.DeleteFunc(*list, func(pod *v1.Pod) bool {
			first := pod.Spec.NodeName == op.Object.GetName() && usesClaims(pod)
			if first {
				g.prerequisites = append(g.prerequisites, log.Op{Kind: log.Delete, Object: pod.DeepCopy()})
			}
			return first
		})
	}
	return op, true
}
