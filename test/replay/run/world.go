package run

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// World is the cluster as far as the log has told it. It turns ops into what
// an informer would have said, and holds the log to what a cluster can do.
type World struct {
	scheduler Scheduler
	nodes     map[string]*v1.Node
	pods      map[types.NamespacedName]*pod
}

// pod is the newest version of a pod, and the node that it is on, if any: its
// own, or the one that an attempt chose and that is not confirmed yet.
type pod struct {
	*v1.Pod
	node    string
	assumed bool
}

// NewWorld returns an empty cluster that s schedules.
func NewWorld(s Scheduler) *World {
	return &World{scheduler: s, nodes: map[string]*v1.Node{}, pods: map[types.NamespacedName]*pod{}}
}

// Do lets one thing happen. The Outcome is nil unless it was an attempt. The
// error is a *log.Error when the op makes no sense.
func (w *World) Do(op log.Op) (*Outcome, error) {
	switch object := op.Object.(type) {
	case *v1.Node:
		w.node(op.Kind, object)
		return nil, nil
	case *v1.Pod:
		return w.pod(op, object)
	}
	act := w.scheduler.SetObject
	if op.Kind == log.Delete {
		act = w.scheduler.RemoveObject
	}
	if err := act(op.Object); err != nil {
		return nil, op.Errorf("kind", "%v", err)
	}
	return nil, nil
}

func (w *World) node(kind log.Kind, node *v1.Node) {
	before := w.nodes[node.Name]
	switch {
	case kind == log.Apply:
		w.nodes[node.Name] = node
		w.scheduler.SetNode(before, node)
	case before != nil:
		delete(w.nodes, node.Name)
		w.scheduler.RemoveNode(before)
	}
}

func (w *World) pod(op log.Op, next *v1.Pod) (*Outcome, error) {
	key := types.NamespacedName{Namespace: next.Namespace, Name: next.Name}
	before := w.pods[key]
	if before != nil && (op.Kind == log.Delete || before.UID != next.UID) {
		// Of another UID it is another pod: the deletion in between was missed.
		delete(w.pods, key)
		if err := w.scheduler.RemovePod(before.Pod); err != nil {
			return nil, fmt.Errorf("line %d: %w", op.Line, err)
		}
		before = nil
	}
	switch op.Kind {
	case log.Delete:
		return nil, nil
	case log.Apply:
		return nil, w.set(op, key, before, next)
	}
	return w.schedule(op, key, before, next)
}

func (w *World) set(op log.Op, key types.NamespacedName, before *pod, next *v1.Pod) error {
	known := &pod{Pod: next, node: next.Spec.NodeName}
	var last *v1.Pod
	if before != nil {
		last = before.Pod
		switch {
		case before.node == "":
		case !before.assumed && before.node != next.Spec.NodeName:
			return op.Errorf("spec.nodeName", "must be %q, where the pod is, is %q: a pod does not move", before.node, next.Spec.NodeName)
		case known.node == "":
			known.node, known.assumed = before.node, true
		}
	}
	w.pods[key] = known
	if err := w.scheduler.SetPod(last, next); err != nil {
		return fmt.Errorf("line %d: %w", op.Line, err)
	}
	return nil
}

func (w *World) schedule(op log.Op, key types.NamespacedName, before *pod, next *v1.Pod) (*Outcome, error) {
	if before != nil && before.node != "" {
		return nil, op.Errorf("metadata.uid", "must be new, is %q: that pod is on node %s already", next.UID, before.node)
	}
	if op.Start != nil {
		from, can := w.scheduler.(Starter)
		if !can {
			return nil, &log.Error{Line: op.Line, Field: "start", Detail: "this scheduler's walk cannot be told where to start"}
		}
		from.StartAt(*op.Start)
	}
	outcome := w.scheduler.Attempt(next)
	w.pods[key] = &pod{Pod: next, node: outcome.Node, assumed: true}
	if outcome.Node == "" {
		return outcome, nil
	}
	if err := w.scheduler.Assume(next, outcome.Node); err != nil {
		return nil, fmt.Errorf("line %d: %w", op.Line, err)
	}
	return outcome, nil
}
