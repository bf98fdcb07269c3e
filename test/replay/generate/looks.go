package generate

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Looks makes up a cluster with many nodes and pods, and pods to look at with
// one plugin: they are scheduled, but nothing becomes of them. Between them the
// cluster moves.
type Looks struct {
	*Generator
	focus focus
	pods  int // that have a node and are still to come
	looks int // pods to look at that are still to come
	asked bool
}

// NewLooks returns the looks of a seed, with so many pods to look at.
func NewLooks(seed uint64, plugin string, looks int) *Looks {
	g := &Generator{dice: newDice(seed), nodes: map[string]*v1.Node{}}
	c := &Looks{Generator: g, focus: focusOn(plugin), looks: looks}
	g.config = g.profileOf(plugin, nil)
	g.before = append(g.objects(), g.storage()...)
	g.first = g.between(10, 40)
	c.pods = g.between(1, 4) * g.first
	return c
}

// Config is a profile that the plugin has for itself.
func (c *Looks) Config() run.Config { return c.config }

// Next returns what happens next; false after the last pod to look at.
func (c *Looks) Next() (log.Op, bool) {
	switch {
	case len(c.before) > 0:
		op := c.before[0]
		c.before = c.before[1:]
		return op, true
	case c.first > 0:
		c.first--
		return c.after(c.node(c.addNode())), true
	case c.pods > 0:
		c.pods--
		return c.after(c.settled()), true
	case c.looks == 0:
		return log.Op{}, false
	}
	if c.asked = !c.asked; c.asked {
		c.looks--
		pod := c.pod()
		return c.after(log.Op{Kind: log.Schedule, Object: pod}), true
	}
	for {
		if op, ok := draw(c.dice, c.moves())(); ok {
			return c.after(op), true
		}
	}
}

// moves are what happens between two looks.
func (c *Looks) moves() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{4, func() (log.Op, bool) { return c.settled(), true }},
		{4, c.changePlaced},
		{4, func() (log.Op, bool) {
			pod, ok := take(c.Generator, &c.Generator.placed)
			return log.Op{Kind: log.Delete, Object: pod}, ok
		}},
		{3, c.changeNode},
		{1, func() (log.Op, bool) { return c.node(c.addNode()), true }},
		{1, c.nodeEmpties},
		{1, c.changeObject},
		{c.focus.storage / 10, c.changeStorage},
	}
}

// node changes the node of an op, most often, in what the plugin looks at.
func (c *Looks) node(op log.Op) log.Op {
	if c.chance(70) {
		node := op.Object.(*v1.Node)
		c.focus.node(c.Generator, node)
		c.nodes[node.Name] = node.DeepCopy()
	}
	return op
}

// pod makes up a pod, most often one that the plugin judges.
func (c *Looks) pod() *v1.Pod {
	pod := c.newPod()
	pod.Status.NominatedNodeName = ""
	if c.chance(c.focus.judged) {
		c.focus.pod(c.Generator, pod)
	}
	if c.chance(c.focus.wishing) {
		c.focus.wish(c.Generator, pod)
	}
	return pod
}

// settled adds a pod that has a node.
func (c *Looks) settled() log.Op {
	pod := c.pod()
	pod.Spec.SchedulingGates = nil
	if pod.Spec.NodeName = c.someNodeFor(pod); pod.Spec.NodeName == "" {
		pod.Spec.NodeName = "nowhere-0"
		pod.Spec.Volumes = nil // a claim would be miscounted there
	}
	if len(c.names) > 0 && c.chance(c.focus.crowd) {
		pod.Spec.NodeName = c.names[c.IntN(1+len(c.names)/4)]
	}
	c.placed = append(c.placed, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}
}
