package generate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/support/fixture"
)

// addNode lets a node come: a new one, or one that was there before.
func (g *Generator) addNode() log.Op {
	name := fmt.Sprintf("n%d", len(g.nodes)+len(g.gone))
	if len(g.gone) > 0 && g.chance(50) {
		i := g.IntN(len(g.gone))
		name = g.gone[i]
		g.gone = slices.Delete(g.gone, i, i+1)
	}
	node := fixture.Node(name).Obj()
	for _, change := range []func(*v1.Node){g.resizeNode, g.relabelNode, g.rezoneNode, g.taintNode, g.fillNode, g.cordonNode, g.declareNode} {
		change(node)
	}
	if g.crowd != nil && g.chance(60) {
		plainNode(node)
	}
	g.nodes[name] = node
	g.names = append(g.names, name)
	if g.chance(70) {
		g.ahead = append(g.ahead, log.Op{Kind: log.Apply, Object: g.driversOn(name)})
	}
	return log.Op{Kind: log.Apply, Object: node.DeepCopy()}
}

func (g *Generator) nodeComes() (log.Op, bool) { return g.addNode(), true }

// nodeGoes deletes a node; the pods on it are deleted later, or never.
func (g *Generator) nodeGoes() (log.Op, bool) {
	if len(g.names) < 2 && !g.chance(10) || len(g.names) == 0 {
		return log.Op{}, false
	}
	i := g.IntN(len(g.names))
	node := g.nodes[g.names[i]]
	delete(g.nodes, node.Name)
	g.names = slices.Delete(g.names, i, i+1)
	g.gone = append(g.gone, node.Name)
	return log.Op{Kind: log.Delete, Object: node.DeepCopy()}, true
}

// changeNode changes one or two things of a node.
func (g *Generator) changeNode() (log.Op, bool) {
	if len(g.names) == 0 {
		return log.Op{}, false
	}
	node := g.nodes[pick(g.dice, g.names)].DeepCopy()
	for range g.between(1, 2) {
		draw(g.dice, []weighted[func(*v1.Node)]{
			{3, g.resizeNode}, {3, g.relabelNode}, {3, g.rezoneNode}, {3, g.taintNode}, {4, g.fillNode}, {2, g.cordonNode}, {1, g.declareNode},
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
		"pods", pick(g.dice, []string{"4", "6", "10", "30", "110"}),
	)
	if g.chance(70) {
		offers[v1.ResourceEphemeralStorage] = resource.MustParse(pick(g.dice, []string{"10Gi", "40Gi", "100Gi", "1"}))
	}
	for _, name := range some(g.dice, extended, 2) {
		offers[name] = resource.MustParse(pick(g.dice, []string{"0", "1", "4", "8"}))
	}
	node.Status.Capacity, node.Status.Allocatable = offers.DeepCopy(), offers
}

func (g *Generator) relabelNode(node *v1.Node) {
	for key, values := range sorted(labels) {
		delete(node.Labels, key)
		if g.chance(60) {
			node.Labels[key] = pick(g.dice, values)
		}
	}
}

func (g *Generator) rezoneNode(node *v1.Node) {
	for key, values := range sorted(map[string][]string{
		v1.LabelTopologyZone: zones, v1.LabelTopologyRegion: regions, Rack: racks,
		v1.LabelFailureDomainBetaZone: zones, v1.LabelFailureDomainBetaRegion: regions,
	}) {
		delete(node.Labels, key)
		likely := 80
		if key == v1.LabelFailureDomainBetaZone || key == v1.LabelFailureDomainBetaRegion {
			likely = 10
		}
		if g.chance(likely) {
			node.Labels[key] = pick(g.dice, values)
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
			Key: pick(g.dice, taintKeys), Value: pick(g.dice, taintValues),
			Effect: draw(g.dice, []weighted[v1.TaintEffect]{{2, effects[0]}, {6, effects[1]}, {1, effects[2]}}),
		})
	}
}

// fillNode changes the images on a node. Now and then a node reports another
// size than the others do.
func (g *Generator) fillNode(node *v1.Node) {
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
			names = append(names, pick(g.dice, images))
		}
		node.Status.Images = append(node.Status.Images, v1.ContainerImage{Names: names, SizeBytes: size})
	}
}

func (g *Generator) cordonNode(node *v1.Node) { node.Spec.Unschedulable = g.chance(8) }

func (g *Generator) declareNode(node *v1.Node) {
	node.Status.DeclaredFeatures = some(g.dice, features, len(features))
	if g.chance(40) {
		node.Status.DeclaredFeatures = slices.Clone(features)
	}
	slices.Sort(node.Status.DeclaredFeatures)
}
