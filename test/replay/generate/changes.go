package generate

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/sandbox/log"
	"github.com/berthdev/berth/test/replay/run"
)

// Changes makes up what happens to a small cluster around pods that wait: each
// op adds, changes or removes one object. A pod that is scheduled waits from
// then on, as does one that is nominated; to schedule it again is to change it.
// One seed, one history, but for the pods that Gone takes out.
type Changes struct {
	*Generator
	focus focus
	// waiting are the pods without a node, the nominated ones left out.
	waiting []*v1.Pod
	// mostNodes is how many nodes there are: few, so that one matters.
	mostNodes int
}

// How many pods a cluster has.
const (
	mostWaiting = 10
	mostPlaced  = 20
)

// NewChanges returns the changes of a seed around pods that the plugin often
// refuses, by nodes that it often refuses them.
func NewChanges(seed uint64, plugin string) *Changes {
	g := &Generator{dice: newDice(seed), nodes: map[string]*v1.Node{}, defaulted: true}
	c := &Changes{Generator: g, focus: focusOn(plugin)}
	g.config = g.profileOf(plugin, c.focus.args)
	g.before = append(g.objects(), g.storage()...)
	c.mostNodes = draw(g.dice, c.focus.nodes)
	g.first = c.mostNodes
	return c
}

// Config is a profile that the plugin has for itself.
func (c *Changes) Config() run.Config { return c.config }

// Gone takes out a pod that waits no more.
func (c *Changes) Gone(pod *v1.Pod) {
	c.waiting = without(c.waiting, pod)
	c.nominated = without(c.nominated, pod)
}

func without(pods []*v1.Pod, gone *v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(pods, func(p *v1.Pod) bool { return p.UID == gone.UID })
}

// Next returns what happens next.
func (c *Changes) Next() log.Op {
	if len(c.before) > 0 {
		op := c.before[0]
		c.before = c.before[1:]
		return op
	}
	if c.first > 0 {
		c.first--
		return c.after(c.nodeOf(c.addNode()))
	}
	for {
		if op, ok := draw(c.dice, c.events())(); ok {
			return c.after(op)
		}
	}
}

func (c *Changes) events() []weighted[func() (log.Op, bool)] {
	return []weighted[func() (log.Op, bool)]{
		{10, c.comes},
		{c.focus.own, c.changeWaiting},
		{2, c.leaves},
		{12, c.nodeChanges},
		{c.focus.churn, c.nodeReturns},
		{c.focus.churn, c.nodeGoes},
		{c.focus.pods, c.placed},
		{c.focus.pods, c.changePlaced},
		{c.focus.pods, c.ends},
		{3, c.nominate},
		{3, c.changeNominated},
		{c.focus.objects, c.changeAround},
		{c.focus.storage, c.changeStorageAround},
	}
}

// comes lets a pod come that has to wait.
func (c *Changes) comes() (log.Op, bool) {
	if len(c.waiting) >= mostWaiting {
		return log.Op{}, false
	}
	pod := c.newPod()
	pod.Status.NominatedNodeName = ""
	c.focus.pod(c.Generator, pod)
	c.waiting = append(c.waiting, pod)
	return log.Op{Kind: log.Schedule, Object: pod.DeepCopy()}, true
}

// leaves deletes a pod that waits.
func (c *Changes) leaves() (log.Op, bool) {
	pod, ok := take(c.Generator, &c.waiting)
	return log.Op{Kind: log.Delete, Object: pod}, ok
}

// changeWaiting changes of a pod that waits what can be changed then.
func (c *Changes) changeWaiting() (log.Op, bool) {
	if len(c.waiting) == 0 {
		return log.Op{}, false
	}
	i := c.IntN(len(c.waiting))
	pod := c.waiting[i].DeepCopy()
	c.changeOwn(pod)
	c.waiting[i] = pod
	return log.Op{Kind: log.Schedule, Object: pod.DeepCopy()}, true
}

func (c *Changes) changeOwn(pod *v1.Pod) {
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
		pod.Spec.Containers[c.IntN(len(pod.Spec.Containers))].Resources.Requests = c.requests()
	default:
		pod.Annotations = map[string]string{"note": pick(c.dice, apps)}
	}
}

// nodeChanges changes a node, half the time where the plugin looks.
func (c *Changes) nodeChanges() (log.Op, bool) {
	op, ok := c.changeNode()
	if ok && c.chance(50) {
		return c.nodeOf(op), true
	}
	return op, ok
}

// nodeReturns lets a node come, a new one or one that was there before.
func (c *Changes) nodeReturns() (log.Op, bool) {
	if len(c.names) >= c.mostNodes {
		return log.Op{}, false
	}
	return c.nodeOf(c.addNode()), true
}

// nodeOf changes the node of an op in what the plugin looks at.
func (c *Changes) nodeOf(op log.Op) log.Op {
	node := op.Object.(*v1.Node)
	c.focus.node(c.Generator, node)
	c.nodes[node.Name] = node.DeepCopy()
	return op
}

// placed adds a pod that is on its node already.
func (c *Changes) placed() (log.Op, bool) {
	if len(c.Generator.placed) >= mostPlaced {
		return log.Op{}, false
	}
	op, ok := c.placeElsewhere()
	if !ok {
		return op, false
	}
	pod := op.Object.(*v1.Pod)
	node := pod.Spec.NodeName
	if c.chance(70) {
		c.focus.pod(c.Generator, pod)
	}
	if len(c.names) > 0 && c.chance(c.focus.crowd) {
		node = c.names[0]
	}
	pod.Spec.NodeName, pod.Spec.SchedulingGates = node, nil
	c.Generator.placed[len(c.Generator.placed)-1] = pod.DeepCopy()
	return op, true
}

// ends deletes a pod that has a node. A cluster fills before it empties.
func (c *Changes) ends() (log.Op, bool) {
	if len(c.Generator.placed) < mostPlaced/2 && c.chance(75) {
		return log.Op{}, false
	}
	pod, ok := take(c.Generator, &c.Generator.placed)
	return log.Op{Kind: log.Delete, Object: pod}, ok
}

// changeNominated does to a nominated pod what may be done to one.
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
			c.Generator.placed = append(c.Generator.placed, pod)
			return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
		}
	default:
		c.changeOwn(pod)
	}
	c.nominated = append(c.nominated, pod)
	return log.Op{Kind: log.Apply, Object: pod.DeepCopy()}, true
}

// changeStorageAround changes storage, half the time a claim of a pod that waits
// or the volume of one.
func (c *Changes) changeStorageAround() (log.Op, bool) {
	if len(c.waiting) == 0 || c.chance(50) {
		return c.changeStorage()
	}
	pod := pick(c.dice, c.waiting)
	if len(pod.Spec.Volumes) == 0 {
		return log.Op{}, false
	}
	claim := pick(c.dice, pod.Spec.Volumes).PersistentVolumeClaim
	if claim == nil {
		return log.Op{}, false
	}
	made := pick(c.dice, []func(namespace, claim string) log.Object{c.claim, c.volumeOf})
	return log.Op{Kind: log.Apply, Object: made(pod.Namespace, claim.ClaimName)}, true
}

// changeAround changes the namespace of a pod that waits, or what owns or
// selects pods there.
func (c *Changes) changeAround() (log.Op, bool) {
	if len(c.waiting) == 0 || c.chance(30) {
		return c.changeObject()
	}
	pod := pick(c.dice, c.waiting)
	app := pod.Labels["app"]
	if owned := pod.OwnerReferences; len(owned) > 0 {
		app = owned[0].Name
	}
	if app == "" {
		return log.Op{}, false
	}
	return c.changeObjectOf(pod.Namespace, app), true
}
