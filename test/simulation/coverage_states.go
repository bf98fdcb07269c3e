package simulation

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berthdev/berth/scheduler/queue"
)

// The states of a pod are its places in the queue, with more of a pod in flight, and these.
const (
	// A pod that the queue knows and that has no place yet.
	stateAdded = "being added"
	// A pod in flight, by how far its attempt has come.
	stateTried        = string(queue.InFlight)
	stateAtPermit     = "at Permit"
	stateBindingSent  = "a Binding is sent"
	stateBindingTaken = "a Binding has arrived"
	stateReadAgain    = "read again"
	statePatched      = "being patched"
	// A pod that the queue does not have.
	stateNotQueued = "not queued"
	stateOnNode    = "on a node"
	stateDeleted   = "deleted"
	// No such pod: a request about another object, or an event of a pod that is new.
	stateNoPod = "no pod"
	// deletedMark follows the place of a pod that the queue has and the API server has not.
	deletedMark = ", and deleted"
)

// podState is the state of a pod that the API server has.
func (c *coverage) podState(sim *simulation, pod *v1.Pod, place queue.Place, queued bool) string {
	switch {
	case !queued && pod.Spec.NodeName != "":
		return stateOnNode
	case !queued:
		return stateNotQueued
	case place == "":
		return stateAdded
	case place != queue.InFlight:
		return string(place)
	}
	for _, r := range sim.requests {
		if c.pods[pod.UID].key != c.subjectOf(r) {
			continue
		}
		switch {
		case r.verb == "bind" && r.arrived:
			return stateBindingTaken
		case r.verb == "bind":
			return stateBindingSent
		case r.verb == "get":
			return stateReadAgain
		case r.verb == "patch":
			return statePatched
		}
	}
	if sim.sched.Components().Waiting.Has(pod.UID) {
		return stateAtPermit
	}
	return stateTried
}

// progressOf says how far a request has come.
func progressOf(r *request) string {
	if r.arrived {
		return wireArrived
	}
	return wireSent
}

const (
	wireSent    = " is sent"
	wireArrived = " has arrived"
)

// How a process ends.
const (
	endKilled = "it is killed"
	endFrozen = "it is frozen"
)

// taskKind is the kind of the task that runs.
func taskKind(sim *simulation) string {
	t := sim.tasks.current
	switch {
	case t == nil:
		return "the outside"
	case strings.HasPrefix(t.name, reconcilerPrefix):
		return reconcilerPrefix
	}
	return t.name
}

const reconcilerPrefix = "reconciler of "

// The phases of a process.
const (
	phaseStart     = "it lists"
	phaseHandover  = "it takes over"
	phaseSchedules = "it schedules"
	phaseQuiet     = "faults have ended"
)

func phaseOf(sim *simulation) string {
	for _, i := range sim.informers {
		if i.handler == nil || i.initialLeft > 0 {
			return phaseStart
		}
	}
	switch {
	case sim.healed:
		return phaseQuiet
	case sim.inHandover():
		return phaseHandover
	}
	return phaseSchedules
}

// The changes of a profile that a reconciler makes, and when pods are looked at.
const (
	changeDeletes = "it is deleted"
	changeRefused = "its spec is refused"
	changeFails   = "its plugins cannot be built"
	changeStarts  = "it begins to run"
	changeSwaps   = "it is swapped"
	changePauses  = "it is paused"

	changeBegins = ": at the beginning"
	changeEnds   = ": at the end"
)

// changeOf is what the reconciler of a profile is about to do.
func changeOf(p *profile) string {
	switch spec := p.spec; {
	case spec == nil:
		return changeDeletes
	case spec.refused:
		return changeRefused
	case spec.build != "" && !spec.withoutProbe:
		return changeFails
	case spec.paused:
		return changePauses
	case p.running == nil:
		return changeStarts
	}
	return changeSwaps
}

// change is one way in which an object can differ from its older version.
type fieldChange[T any] struct {
	name    string
	differs func(before, after T) bool
}

// podChanges are the changes of a pod that scheduling reads, the most important first.
var podChanges = []fieldChange[*v1.Pod]{
	{"it gets a node", func(a, b *v1.Pod) bool { return a.Spec.NodeName != b.Spec.NodeName }},
	{"it begins to terminate", func(a, b *v1.Pod) bool { return a.DeletionTimestamp == nil && b.DeletionTimestamp != nil }},
	{"its gates", func(a, b *v1.Pod) bool { return len(a.Spec.SchedulingGates) != len(b.Spec.SchedulingGates) }},
	{"its tolerations", func(a, b *v1.Pod) bool { return len(a.Spec.Tolerations) != len(b.Spec.Tolerations) }},
	{"its labels", func(a, b *v1.Pod) bool { return !equality.Semantic.DeepEqual(a.Labels, b.Labels) }},
	{"its nomination", func(a, b *v1.Pod) bool { return a.Status.NominatedNodeName != b.Status.NominatedNodeName }},
	{"its conditions", func(a, b *v1.Pod) bool { return true }},
}

// nodeChanges are the changes of a node that scheduling reads, the most important first.
var nodeChanges = []fieldChange[*v1.Node]{
	{"its taints", func(a, b *v1.Node) bool { return len(a.Spec.Taints) != len(b.Spec.Taints) }},
	{"it is cordoned or uncordoned", func(a, b *v1.Node) bool { return a.Spec.Unschedulable != b.Spec.Unschedulable }},
	{"its size", func(a, b *v1.Node) bool {
		return !equality.Semantic.DeepEqual(a.Status.Allocatable, b.Status.Allocatable)
	}},
	{"its labels", func(a, b *v1.Node) bool { return !equality.Semantic.DeepEqual(a.Labels, b.Labels) }},
	{"its heartbeat", func(a, b *v1.Node) bool { return true }},
}

// The events that objects of all kinds can have.
const (
	eventAdded    = "added"
	eventDeleted  = "deleted"
	eventListed   = "deleted, found by a list"
	eventReplaced = "another object under its name"
	eventChanged  = "changed"
)

// eventName names what a handler gets: the informer, and what has changed.
func eventName(informer string, n notification) string {
	return informer + ": " + whatChanged(n)
}

func whatChanged(n notification) string {
	switch {
	case n.new == nil && n.unknownState:
		return eventListed
	case n.new == nil:
		return eventDeleted
	case n.old == nil:
		return eventAdded
	case n.old.GetUID() != n.new.GetUID():
		return eventReplaced
	}
	switch after := n.new.(type) {
	case *v1.Pod:
		return firstChange(podChanges, n.old.(*v1.Pod), after)
	case *v1.Node:
		return firstChange(nodeChanges, n.old.(*v1.Node), after)
	}
	return eventChanged
}

func firstChange[T any](changes []fieldChange[T], before, after T) string {
	for _, c := range changes {
		if c.differs(before, after) {
			return c.name
		}
	}
	return eventChanged
}

// concernsOthers says whether an event of a pod can change what becomes of other pods: one that
// is or was on a node, or nominated for one.
func concernsOthers(n notification) bool {
	for _, o := range []object{n.old, n.new} {
		if pod, ok := o.(*v1.Pod); ok && pod != nil && (pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "") {
			return true
		}
	}
	return false
}
