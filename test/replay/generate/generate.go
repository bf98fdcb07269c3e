// Package generate generates histories of clusters: profiles, nodes and pods that use every
// feature that a plugin of this build decides by, in clusters that are neither empty nor quite
// full. A seed gives one history, given the same decisions.
package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Generator generates one history. Its caller must pass the outcome of each attempt to
// Observe, since later ops depend on it: pods are confirmed on their nodes, and refused pods
// are retried.
type Generator struct {
	random
	config run.Config
	// attempts is how many attempts are left.
	attempts int
	// initial and initialNodes are what is left of the first objects and nodes.
	initial      []log.Op
	initialNodes int
	// prerequisites are ops that come before the op that was drawn last.
	prerequisites []log.Op
	// defaulted says that each StorageClass has a binding mode, as the API server ensures.
	// Without one VolumeBinding returns an error, which requeues pods by itself.
	defaulted bool
	// fixed has the immutable values of storage objects.
	fixed map[string]any
	// devices are empty unless the history or its focus has devices.
	devices devices
	// preempting is nil unless the cluster is full.
	preempting *preempting

	nodes        map[string]*v1.Node
	nodeNames    []string // of existing nodes, in a fixed order
	deletedNodes []string // names of deleted nodes

	bound     []*v1.Pod // with their nodes
	assumed   []*v1.Pod // with their nodes, not confirmed yet
	refused   []*v1.Pod
	nominated []*v1.Pod
	last      *v1.Pod // the pod of the last attempt

	podCount           int // pods so far
	observed, refusals int // outcomes observed, and refusals among them
}

// New returns the history of a seed, with this many attempts.
func New(seed uint64, attempts int) *Generator {
	g := &Generator{random: newRandom(seed), attempts: attempts, nodes: map[string]*v1.Node{}}
	g.config = g.profile()
	g.initial = append(g.objects(), g.storage()...)
	g.initialNodes = draw(g.random, []weighted[int]{
		{20, g.between(1, 12)},
		{30, g.between(13, 60)},
		{35, g.between(92, 108)}, // below 100 nodes every node is evaluated
		{15, g.between(120, 260)},
	})
	return g
}

// Config returns the profile of the history, with Explain set.
func (g *Generator) Config() run.Config {
	config := g.config
	config.Explain = true
	return config
}

// Next returns the next op; false after the last attempt.
func (g *Generator) Next() (log.Op, bool) {
	if len(g.initial) > 0 {
		op := g.initial[0]
		g.initial = g.initial[1:]
		return op, true
	}
	if g.initialNodes > 0 {
		g.initialNodes--
		return g.withPrerequisites(g.addNode()), true
	}
	if g.preempting != nil && g.preempting.pods > 0 {
		g.preempting.pods--
		if op, ok := g.bindElsewhere(); ok {
			return g.withPrerequisites(op), true
		}
	}
	if g.attempts == 0 {
		return log.Op{}, false
	}
	for {
		// Draw again where the op is impossible now.
		if op, ok := draw(g.random, g.events())(); ok {
			return g.withPrerequisites(op), true
		}
	}
}

// withPrerequisites returns the first of the prerequisites of op, else op itself; the rest
// follows.
func (g *Generator) withPrerequisites(op log.Op) log.Op {
	if len(g.prerequisites) == 0 {
		return op
	}
	first := g.prerequisites[0]
	g.initial = append(append(g.prerequisites[1:], op), g.initial...)
	g.prerequisites = nil
	return first
}

// Observe takes the outcome of the attempt that Next returned last.
func (g *Generator) Observe(outcome *run.Outcome) {
	g.observed++
	if outcome.Node == "" {
		g.refusals++
		if g.preempting != nil {
			g.observePreemption(outcome)
		}
		g.refused = append(g.refused, g.last)
		return
	}
	pod := g.last.DeepCopy()
	pod.Spec.NodeName = outcome.Node
	pod.Status.NominatedNodeName = ""
	g.assumed = append(g.assumed, pod)
	g.allocateClaims(pod)
}

// events are the possible events with their weights. After many refusals more pods are
// deleted, so that refusals stay a part of the history.
func (g *Generator) events() []weighted[func() (log.Op, bool)] {
	if g.preempting != nil {
		return g.preemptingEvents()
	}
	ends := 8
	if g.refusals*5 > g.observed {
		ends = 60
	}
	return []weighted[func() (log.Op, bool)]{
		{100, g.schedule},
		{6, g.retry},
		{12, g.confirm},
		{4, g.bindElsewhere},
		{4, g.changeBound},
		{ends, g.deletePod},
		{3, g.nominate},
		{3, g.changeNomination},
		{8, g.changeNode},
		{2, g.nodeAdded},
		{2, g.drainNode},
		{5, g.changeObject},
		{7, g.changeStorage},
		{2 * min(g.devices.pools, 3), g.changeDevices},
	}
}

func (g *Generator) schedule() (log.Op, bool) {
	pod := g.newPod()
	if g.preempting == nil && g.chance(1) {
		// A log cannot contain such a pod, and no scheduler would see it. But the plugin
		// NodeName exists for it.
		pod.Spec.NodeName = g.someNode()
	}
	return g.attempt(pod), true
}

func (g *Generator) attempt(pod *v1.Pod) log.Op {
	g.attempts--
	g.last = pod
	return log.Op{Kind: log.Schedule, Object: pod}
}

func (g *Generator) retry() (log.Op, bool) {
	pod, ok := take(g, &g.refused)
	if !ok {
		return log.Op{}, false
	}
	return g.attempt(pod.DeepCopy()), true
}

// confirm binds an assumed pod to its node, rarely to another one.
func (g *Generator) confirm() (log.Op, bool) {
	pod, ok := take(g, &g.assumed)
	if !ok {
		return log.Op{}, false
	}
	if node := g.someNodeFor(pod); node != "" && g.chance(2) {
		pod.Spec.NodeName = node
	}
	if g.preempting != nil {
		g.setStartTime(pod)
	}
	g.bound = append(g.bound, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// bindElsewhere adds a pod that another scheduler bound, sometimes to a node that does not
// exist.
func (g *Generator) bindElsewhere() (log.Op, bool) {
	pod := g.newPod()
	pod.Status.NominatedNodeName = ""
	if pod.Spec.NodeName = g.someNodeFor(pod); pod.Spec.NodeName == "" {
		return log.Op{}, false
	}
	if g.preempting != nil {
		g.setStartTime(pod)
	} else if g.chance(10) {
		g.terminate(pod)
	}
	g.bound = append(g.bound, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// changeBound resizes a bound pod, changes its labels or ends it.
func (g *Generator) changeBound() (log.Op, bool) {
	if len(g.bound) == 0 {
		return log.Op{}, false
	}
	i := g.IntN(len(g.bound))
	pod := g.bound[i].DeepCopy()
	g.changePod(pod)
	g.bound[i] = pod
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// deletePod deletes a pod, bound or not.
func (g *Generator) deletePod() (log.Op, bool) {
	from := draw(g.random, []weighted[*[]*v1.Pod]{{6, &g.bound}, {3, &g.assumed}, {1, &g.refused}})
	pod, ok := take(g, from)
	if !ok {
		return log.Op{}, false
	}
	g.releaseClaims(pod)
	return log.Op{Kind: log.Delete, Object: pod.DeepCopy()}, true
}

// take removes a random item from list and returns it.
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

// someNode returns the name of a node, rarely of a deleted one or one that never existed; ""
// when there is none.
func (g *Generator) someNode() string {
	switch {
	case g.chance(4):
		return fmt.Sprintf("nowhere-%d", g.IntN(3))
	case len(g.deletedNodes) > 0 && g.chance(4):
		return pick(g.random, g.deletedNodes)
	case len(g.nodeNames) == 0:
		return ""
	}
	return pick(g.random, g.nodeNames)
}

// nominate adds a pod that is nominated for a node.
func (g *Generator) nominate() (log.Op, bool) {
	pod := g.newPod()
	if pod.Status.NominatedNodeName = g.someNode(); pod.Status.NominatedNodeName == "" {
		return log.Op{}, false
	}
	g.nominated = append(g.nominated, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// changeNomination schedules a nominated pod, binds it, deletes it, or nominates it for
// another node or none.
func (g *Generator) changeNomination() (log.Op, bool) {
	pod, ok := take(g, &g.nominated)
	if !ok {
		return log.Op{}, false
	}
	pod = pod.DeepCopy()
	switch g.IntN(8) {
	case 0:
		return log.Op{Kind: log.Delete, Object: pod}, true
	case 1:
		pod.Status.NominatedNodeName = g.someNode()
		g.nominated = append(g.nominated, pod)
		return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
	case 2:
		if pod.Spec.NodeName = g.someNodeFor(pod); pod.Spec.NodeName != "" {
			g.bound = append(g.bound, pod)
			return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
		}
	}
	return g.attempt(pod), true
}
