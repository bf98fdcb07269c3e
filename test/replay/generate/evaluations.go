package generate

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Evaluations generates a cluster with many nodes and pods, and pods to evaluate with one
// plugin: ops with Schedule, whose pods are not bound. In between the cluster changes.
type Evaluations struct {
	*Generator
	focus     focus
	pods      int // bound pods that are left
	left      int // pods to evaluate that are left
	evaluated bool
}

// NewEvaluations returns the evaluations of a seed, with this many pods to evaluate.
func NewEvaluations(seed uint64, plugin string, count int) *Evaluations {
	g := &Generator{random: newRandom(seed), nodes: map[string]*v1.Node{}}
	c := &Evaluations{Generator: g, focus: focusOn(plugin), left: count}
	g.config = g.profileOf(plugin, nil)
	g.initial = append(g.objects(), g.storage()...)
	g.initialNodes = g.between(10, 40)
	c.pods = g.between(1, 4) * g.initialNodes
	return c
}

// Config returns a profile with this plugin alone.
func (c *Evaluations) Config() run.Config { return c.config }

// Next returns the next op; false after the last pod to evaluate.
func (c *Evaluations) Next() (log.Op, bool) {
	switch {
	case len(c.initial) > 0:
		op := c.initial[0]
		c.initial = c.initial[1:]
		return op, true
	case c.initialNodes > 0:
		c.initialNodes--
		return c.withPrerequisites(c.focusNode(c.addNode())), true
	case c.pods > 0:
		c.pods--
		return c.withPrerequisites(c.addBoundPod()), true
	case c.left == 0:
		return log.Op{}, false
	}
	if c.evaluated = !c.evaluated; c.evaluated {
		c.left--
		pod := c.focusPod()
		return c.withPrerequisites(log.Op{Kind: log.Schedule, Object: pod}), true
	}
	for {
		if op, ok := draw(c.random, c.changes())(); ok {
			return c.withPrerequisites(op), true
		}
	}
}

// changes are the events between two evaluations.
func (c *Evaluations) changes() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{4, func() (log.Op, bool) { return c.addBoundPod(), true }},
		{4, c.changeBound},
		{4, func() (log.Op, bool) {
			pod, ok := take(c.Generator, &c.Generator.bound)
			return log.Op{Kind: log.Delete, Object: pod}, ok
		}},
		{3, c.changeNode},
		{1, func() (log.Op, bool) { return c.focusNode(c.addNode()), true }},
		{1, c.drainNode},
		{1, c.changeObject},
		{c.focus.storage / 10, c.changeStorage},
	}
}

// focusNode changes the node of an op in the fields that the plugin reads, most of the time.
func (c *Evaluations) focusNode(op log.Op) log.Op {
	if c.chance(70) {
		node := op.Object.(*v1.Node)
		c.focus.node(c.Generator, node)
		c.nodes[node.Name] = node.DeepCopy()
	}
	return op
}

// focusPod returns a new pod, most often with fields that the plugin reads.
func (c *Evaluations) focusPod() *v1.Pod {
	pod := c.newPod()
	pod.Status.NominatedNodeName = ""
	if c.chance(c.focus.filteredPercent) {
		c.focus.pod(c.Generator, pod)
	}
	if c.chance(c.focus.scoredPercent) {
		c.focus.scored(c.Generator, pod)
	}
	return pod
}

// addBoundPod adds a bound pod.
func (c *Evaluations) addBoundPod() log.Op {
	pod := c.focusPod()
	pod.Spec.SchedulingGates = nil
	if pod.Spec.NodeName = c.someNodeFor(pod); pod.Spec.NodeName == "" {
		pod.Spec.NodeName = "nowhere-0"
		pod.Spec.Volumes = nil // kube-scheduler would miscount a claim there
	}
	if len(c.nodeNames) > 0 && c.chance(c.focus.sameNode) {
		pod.Spec.NodeName = c.nodeNames[c.IntN(1+len(c.nodeNames)/4)]
	}
	c.bound = append(c.bound, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}
}
