// Package generate makes up the histories of clusters: profiles, nodes and
// pods that use every feature that a plugin of this build decides by, in
// clusters that are neither empty nor quite full. One seed, one history, given
// the same decisions.
package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Generator makes up one history. After each attempt that it asks for it must
// be told the outcome, since what happens later depends on it: pods are
// confirmed where they were put, and pods that were refused are tried again.
type Generator struct {
	dice
	config run.Config
	// attempts is how many are still to come.
	attempts int
	// What the cluster begins with and is still to come: objects, then so many
	// nodes.
	before []log.Op
	first  int
	// ahead is what has to happen before what was drawn last.
	ahead []log.Op
	// defaulted says that each class has a binding mode, as the API server sees
	// to. Without one VolumeBinding fails, which wakes pods by itself.
	defaulted bool
	// kept is what was made up of storage for good.
	kept map[string]any
	// crowd is nil unless the cluster is full.
	crowd *crowd

	nodes map[string]*v1.Node
	names []string // of the nodes that are there, in a fixed order
	gone  []string // of nodes that were there

	placed    []*v1.Pod // with their node
	assumed   []*v1.Pod // with their node, not confirmed yet
	refused   []*v1.Pod
	nominated []*v1.Pod
	last      *v1.Pod // whose attempt was asked for last

	born         int // pods so far
	asked, noted int // attempts told of, and refusals among them
}

// New returns the history of a seed, of so many attempts.
func New(seed uint64, attempts int) *Generator {
	g := &Generator{dice: newDice(seed), attempts: attempts, nodes: map[string]*v1.Node{}}
	g.config = g.profile()
	g.before = append(g.objects(), g.storage()...)
	g.first = draw(g.dice, []weighted[int]{
		{20, g.between(1, 12)},
		{30, g.between(13, 60)},
		{35, g.between(92, 108)}, // below 100 nodes the search is not cut short
		{15, g.between(120, 260)},
	})
	return g
}

// Config is the profile that the history is scheduled by, with its scores
// asked for.
func (g *Generator) Config() run.Config {
	config := g.config
	config.Explain = true
	return config
}

// Next returns what happens next; false after the last attempt.
func (g *Generator) Next() (log.Op, bool) {
	if len(g.before) > 0 {
		op := g.before[0]
		g.before = g.before[1:]
		return op, true
	}
	if g.first > 0 {
		g.first--
		return g.after(g.addNode()), true
	}
	if g.crowd != nil && g.crowd.first > 0 {
		g.crowd.first--
		if op, ok := g.placeElsewhere(); ok {
			return g.after(op), true
		}
	}
	if g.attempts == 0 {
		return log.Op{}, false
	}
	for {
		// What cannot happen now draws again.
		if op, ok := draw(g.dice, g.events())(); ok {
			return g.after(op), true
		}
	}
}

// after returns what happens first: op, or what has to happen before it.
func (g *Generator) after(op log.Op) log.Op {
	if len(g.ahead) == 0 {
		return op
	}
	first := g.ahead[0]
	g.before = append(append(g.ahead[1:], op), g.before...)
	g.ahead = nil
	return first
}

// Tell tells how the attempt ended that Next asked for last.
func (g *Generator) Tell(outcome *run.Outcome) {
	g.asked++
	if outcome.Node == "" {
		g.noted++
		if g.crowd != nil {
			g.tellCrowd(outcome)
		}
		g.refused = append(g.refused, g.last)
		return
	}
	pod := g.last.DeepCopy()
	pod.Spec.NodeName = outcome.Node
	pod.Status.NominatedNodeName = ""
	g.assumed = append(g.assumed, pod)
}

// events are what may happen, by how often. Pods end the more often the more
// were refused, so that refusals stay a part of the history and no more.
func (g *Generator) events() []weighted[func() (log.Op, bool)] {
	if g.crowd != nil {
		return g.crowdEvents()
	}
	ends := 8
	if g.noted*5 > g.asked {
		ends = 60
	}
	return []weighted[func() (log.Op, bool)]{
		{100, g.schedule},
		{6, g.tryAgain},
		{12, g.confirm},
		{4, g.placeElsewhere},
		{4, g.changePlaced},
		{ends, g.end},
		{3, g.nominate},
		{3, g.settleNomination},
		{8, g.changeNode},
		{2, g.nodeComes},
		{2, g.nodeEmpties},
		{5, g.changeObject},
		{7, g.changeStorage},
	}
}

func (g *Generator) schedule() (log.Op, bool) {
	pod := g.newPod()
	if g.crowd == nil && g.chance(1) {
		// A log cannot hold such a pod, and no scheduler would see it. But a
		// plugin is there to judge it, NodeName.
		pod.Spec.NodeName = g.someNode()
	}
	return g.attempt(pod), true
}

func (g *Generator) attempt(pod *v1.Pod) log.Op {
	g.attempts--
	g.last = pod
	return log.Op{Kind: log.Schedule, Object: pod}
}

func (g *Generator) tryAgain() (log.Op, bool) {
	pod, ok := take(g, &g.refused)
	if !ok {
		return log.Op{}, false
	}
	return g.attempt(pod.DeepCopy()), true
}

// confirm lets the API server say that an assumed pod is where it is; seldom
// that it is elsewhere.
func (g *Generator) confirm() (log.Op, bool) {
	pod, ok := take(g, &g.assumed)
	if !ok {
		return log.Op{}, false
	}
	if node := g.someNodeFor(pod); node != "" && g.chance(2) {
		pod.Spec.NodeName = node
	}
	if g.crowd != nil {
		g.start(pod)
	}
	g.placed = append(g.placed, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// placeElsewhere adds a pod that another scheduler placed, now and then on a
// node that is not there.
func (g *Generator) placeElsewhere() (log.Op, bool) {
	pod := g.newPod()
	pod.Status.NominatedNodeName = ""
	if pod.Spec.NodeName = g.someNodeFor(pod); pod.Spec.NodeName == "" {
		return log.Op{}, false
	}
	if g.crowd != nil {
		g.start(pod)
	} else if g.chance(10) {
		g.leave(pod)
	}
	g.placed = append(g.placed, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// changePlaced resizes a pod that has a node, relabels it or ends its life.
func (g *Generator) changePlaced() (log.Op, bool) {
	if len(g.placed) == 0 {
		return log.Op{}, false
	}
	i := g.IntN(len(g.placed))
	pod := g.placed[i].DeepCopy()
	g.changePod(pod)
	g.placed[i] = pod
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// end deletes a pod, wherever it is.
func (g *Generator) end() (log.Op, bool) {
	from := draw(g.dice, []weighted[*[]*v1.Pod]{{6, &g.placed}, {3, &g.assumed}, {1, &g.refused}})
	pod, ok := take(g, from)
	if !ok {
		return log.Op{}, false
	}
	return log.Op{Kind: log.Delete, Object: pod.DeepCopy()}, true
}

// take takes one of list out.
func take[T any](g *Generator, list *[]T) (one T, ok bool) {
	if len(*list) == 0 {
		return one, false
	}
	i, end := g.IntN(len(*list)), len(*list)-1
	one = (*list)[i]
	(*list)[i] = (*list)[end]
	*list = (*list)[:end]
	return one, true
}

// someNode names a node, seldom one that is gone or never was; "" when there
// is none.
func (g *Generator) someNode() string {
	switch {
	case g.chance(4):
		return fmt.Sprintf("nowhere-%d", g.IntN(3))
	case len(g.gone) > 0 && g.chance(4):
		return pick(g.dice, g.gone)
	case len(g.names) == 0:
		return ""
	}
	return pick(g.dice, g.names)
}
