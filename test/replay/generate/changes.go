package generate

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Changes generates changes of a small cluster with pending pods: each op adds, changes or
// removes one object. A pod is pending from the op that schedules or nominates it; another op
// that schedules it changes it. A seed gives one history, but for the pods that RemovePending
// removes.
type Changes struct {
	*Generator
	focus focus
	// pending are the pods without a node, nominated ones excluded.
	pending []*v1.Pod
	// maxNodes is small, so that each node matters.
	maxNodes int
}

// Limits on the number of pods.
const (
	maxPending = 10
	maxBound   = 20
)

// NewChanges returns the changes of a seed, with pods that the plugin often refuses and nodes
// for which it often refuses them.
func NewChanges(seed uint64, plugin string) *Changes {
	g := &Generator{random: newRandom(seed), nodes: map[string]*v1.Node{}, defaulted: true}
	c := &Changes{Generator: g, focus: focusOn(plugin)}
	g.config = g.profileOf(plugin, c.focus.args)
	g.initial = append(g.objects(), g.storage()...)
	if c.focus.devices > 0 {
		g.initial = append(g.initial, g.deviceObjects(6)...)
	}
	c.maxNodes = draw(g.random, c.focus.nodes)
	g.initialNodes = c.maxNodes
	return c
}

// Config returns a profile with this plugin alone.
func (c *Changes) Config() run.Config { return c.config }

// RemovePending removes a pod that is not pending any more.
func (c *Changes) RemovePending(pod *v1.Pod) {
	c.pending = without(c.pending, pod)
	c.nominated = without(c.nominated, pod)
}

func without(pods []*v1.Pod, removed *v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.UID == removed.UID })
}

// Next returns the next op.
func (c *Changes) Next() log.Op {
	if len(c.initial) > 0 {
		op := c.initial[0]
		c.initial = c.initial[1:]
		return op
	}
	if c.initialNodes > 0 {
		c.initialNodes--
		return c.withPrerequisites(c.focusNode(c.addNode()))
	}
	for {
		if op, ok := draw(c.random, c.events())(); ok {
			return c.withPrerequisites(op)
		}
	}
}

func (c *Changes) events() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{10, c.addPending},
		{c.focus.own, c.changePending},
		{2, c.deletePending},
		{12, c.changeFocusedNode},
		{c.focus.churn, c.addFocusedNode},
		{c.focus.churn, c.removeNode},
		{c.focus.pods, c.addBound},
		{c.focus.pods, c.changeBound},
		{c.focus.pods, c.deleteBound},
		{3, c.nominate},
		{3, c.changeNominated},
		{c.focus.objects, c.changeObjectOfPending},
		{c.focus.storage, c.changeStorageOfPending},
		{c.focus.attachments, c.changeAttachment},
		{c.focus.devices, c.changeDevicesOfPending},
		{c.focus.devices / 4, c.generateClaim},
	}
}

// addPending adds a pending pod.
func (c *Changes) addPending() (log.Op, bool) {
	if len(c.pending) >= maxPending {
		return log.Op{}, false
	}
	pod := c.newPod()
	pod.Status.NominatedNodeName = ""
	c.focus.pod(c.Generator, pod)
	c.pending = append(c.pending, pod)
	return log.Op{Kind: log.Schedule, Object: pod.DeepCopy()}, true
}

// deletePending deletes a pending pod.
func (c *Changes) deletePending() (log.Op, bool) {
	pod, ok := take(c.Generator, &c.pending)
	return log.Op{Kind: log.Delete, Object: pod}, ok
}

// changePending changes a mutable field of a pending pod.
func (c *Changes) changePending() (log.Op, bool) {
	if len(c.pending) == 0 {
		return log.Op{}, false
	}
	i := c.IntN(len(c.pending))
	pod := c.pending[i].DeepCopy()
	c.changePendingFields(pod)
	c.pending[i] = pod
	return log.Op{Kind: log.Schedule, Object: pod.DeepCopy()}, true
}

func (c *Changes) changePendingFields(pod *v1.Pod) {
	switch gates := pod.Spec.SchedulingGates; {
	case len(gates) > 0 && c.chance(60):
		pod.Spec.SchedulingGates = gates[1:]
	case c.chance(40):
		pod.Labels = c.podLabels()
	case c.chance(20):
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists})
	case c.chance(50):
		c.addTolerations(pod)
	case len(pod.Spec.Containers) > 0 && c.chance(80):
		container := &pod.Spec.Containers[c.IntN(len(pod.Spec.Containers))]
		if !strings.HasPrefix(container.Name, extendedContainer) { // extended resources cannot be resized
			container.Resources.Requests = c.requests()
		}
	default:
		pod.Annotations = map[string]string{"note": pick(c.random, apps)}
	}
}

// changeFocusedNode changes a node, half the time in fields that the plugin reads.
func (c *Changes) changeFocusedNode() (log.Op, bool) {
	op, ok := c.changeNode()
	if ok && c.chance(50) {
		return c.focusNode(op), true
	}
	return op, ok
}

// addFocusedNode adds a node, a new one or one that was deleted before.
func (c *Changes) addFocusedNode() (log.Op, bool) {
	if len(c.nodeNames) >= c.maxNodes {
		return log.Op{}, false
	}
	return c.focusNode(c.addNode()), true
}

// focusNode changes the node of an op in the fields that the plugin reads.
func (c *Changes) focusNode(op log.Op) log.Op {
	node := op.Object.(*v1.Node)
	c.focus.node(c.Generator, node)
	c.nodes[node.Name] = node.DeepCopy()
	return op
}

// addBound adds a bound pod.
func (c *Changes) addBound() (log.Op, bool) {
	if len(c.Generator.bound) >= maxBound {
		return log.Op{}, false
	}
	op, ok := c.bindElsewhere()
	if !ok {
		return op, false
	}
	pod := op.Object.(*v1.Pod)
	node := pod.Spec.NodeName
	if c.chance(70) {
		c.focus.pod(c.Generator, pod)
	}
	if len(c.nodeNames) > 0 && c.chance(c.focus.sameNode) {
		node = c.nodeNames[0]
	}
	pod.Spec.NodeName, pod.Spec.SchedulingGates = node, nil
	c.Generator.bound[len(c.Generator.bound)-1] = pod.DeepCopy()
	return op, true
}

// deleteBound deletes a bound pod, seldom while there are few.
func (c *Changes) deleteBound() (log.Op, bool) {
	if len(c.Generator.bound) < maxBound/2 && c.chance(75) {
		return log.Op{}, false
	}
	pod, ok := take(c.Generator, &c.Generator.bound)
	return log.Op{Kind: log.Delete, Object: pod}, ok
}

// changeNominated changes, binds or deletes a nominated pod.
func (c *Changes) changeNominated() (log.Op, bool) {
	pod, ok := take(c.Generator, &c.nominated)
	if !ok {
		return log.Op{}, false
	}
	pod = pod.DeepCopy()
	switch c.IntN(5) {
	case 0:
		return log.Op{Kind: log.Delete, Object: pod}, true
	case 1:
		pod.Status.NominatedNodeName = c.someNode()
	case 2:
		if pod.Spec.NodeName = c.someNode(); pod.Spec.NodeName != "" {
			c.Generator.bound = append(c.Generator.bound, pod)
			return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
		}
	default:
		c.changePendingFields(pod)
	}
	c.nominated = append(c.nominated, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// changeStorageOfPending changes storage, half the time a claim or a volume of a pending pod.
func (c *Changes) changeStorageOfPending() (log.Op, bool) {
	if len(c.pending) == 0 || c.chance(50) {
		return c.changeStorage()
	}
	pod := pick(c.random, c.pending)
	if len(pod.Spec.Volumes) == 0 {
		return log.Op{}, false
	}
	claim := pick(c.random, pod.Spec.Volumes).PersistentVolumeClaim
	if claim == nil {
		return log.Op{}, false
	}
	made := pick(c.random, []func(namespace, claim string) log.Object{c.claim, c.volumeOf})
	return log.Op{Kind: log.Apply, Object: made(pod.Namespace, claim.ClaimName)}, true
}

// changeAttachment attaches a volume that pods have to the first node, or detaches it: a node that
// has too many attached becomes feasible when one is gone.
func (c *Changes) changeAttachment() (log.Op, bool) {
	if len(c.nodeNames) == 0 {
		return log.Op{}, false
	}
	kind := log.Apply
	if c.chance(50) {
		kind = log.Delete
	}
	return log.Op{Kind: kind, Object: c.attachment(c.nodeNames[0], claimNames[:3])}, true
}

// changeObjectOfPending changes the namespace of a pending pod, or an object that owns or
// selects pods there.
func (c *Changes) changeObjectOfPending() (log.Op, bool) {
	if len(c.pending) == 0 || c.chance(30) {
		return c.changeObject()
	}
	pod := pick(c.random, c.pending)
	app := pod.Labels["app"]
	if owned := pod.OwnerReferences; len(owned) > 0 {
		app = owned[0].Name
	}
	if app == "" {
		return log.Op{}, false
	}
	return c.changeObjectOf(pod.Namespace, app), true
}
