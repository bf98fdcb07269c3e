// Package run runs a recorded history through a scheduler, op by op, without an API server:
// one attempt for each pod, from the pod to the chosen node, on which the pod is then assumed.
// Reserve, Permit, binding and the condition do not happen.
package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Scheduler is what a log is run through: Berth, or what it is compared with. Its methods are
// called as an informer's handlers are, with the version known before, nil for a new object,
// and the version after.
type Scheduler interface {
	SetNode(before, after *v1.Node)
	RemoveNode(last *v1.Node)
	// SetPod is for a pod that has a node, or that may be nominated for one.
	SetPod(before, after *v1.Pod) error
	RemovePod(last *v1.Pod) error
	// SetObject and RemoveObject are for any other object. The error says that nothing in
	// scheduling reads its kind.
	SetObject(object runtime.Object) error
	RemoveObject(object runtime.Object) error

	// UpdateSnapshot applies the changes so far, as Attempt does first.
	UpdateSnapshot() error
	// Attempt runs one scheduling cycle.
	Attempt(pod *v1.Pod) *Outcome
	// Assume assumes the pod of the last Attempt on node.
	Assume(pod *v1.Pod, node string) error
}

// Starter is a Scheduler whose next search for nodes can be started at a given index.
type Starter interface {
	StartAt(index int)
}

// Run runs the ops of next through s until next returns an error, io.EOF at the end, and calls
// each with each outcome.
func Run(s Scheduler, next func() (log.Op, error), each func(*Outcome) error) error {
	cluster := NewCluster(s)
	for {
		op, err := next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		outcome, err := cluster.Do(op)
		if err != nil {
			return err
		}
		if outcome == nil {
			continue
		}
		if err := each(outcome); err != nil {
			return err
		}
	}
}

// Cluster is the state of the cluster after the ops so far. It turns each op into what
// informers would deliver, and refuses ops that are impossible in a cluster.
type Cluster struct {
	scheduler Scheduler
	nodes     map[string]*v1.Node
	pods      map[types.NamespacedName]*knownPod
}

// knownPod is the newest version of a pod, and its node, if any: the one in its spec, or the
// one that an attempt chose and no op has confirmed yet.
type knownPod struct {
	*v1.Pod
	node    string
	assumed bool
}

// NewCluster returns an empty cluster whose pods s schedules.
func NewCluster(s Scheduler) *Cluster {
	return &Cluster{scheduler: s, nodes: map[string]*v1.Node{}, pods: map[types.NamespacedName]*knownPod{}}
}

// Do applies one op. The Outcome is nil unless it was an attempt. The error is a *log.Error
// where the op is impossible.
func (c *Cluster) Do(op log.Op) (*Outcome, error) {
	switch object := op.Object.(type) {
	case *v1.Node:
		c.applyNode(op.Kind, object)
		return nil, nil
	case *v1.Pod:
		return c.applyPod(op, object)
	}
	act := c.scheduler.SetObject
	if op.Kind == log.Delete {
		act = c.scheduler.RemoveObject
	}
	if err := act(op.Object); err != nil {
		return nil, op.Errorf("kind", "%v", err)
	}
	return nil, nil
}

func (c *Cluster) applyNode(kind log.Kind, node *v1.Node) {
	before := c.nodes[node.Name]
	switch {
	case kind == log.Apply:
		c.nodes[node.Name] = node
		c.scheduler.SetNode(before, node)
	case before != nil:
		delete(c.nodes, node.Name)
		c.scheduler.RemoveNode(before)
	}
}

func (c *Cluster) applyPod(op log.Op, next *v1.Pod) (*Outcome, error) {
	key := types.NamespacedName{Namespace: next.Namespace, Name: next.Name}
	before := c.pods[key]
	if before != nil && (op.Kind == log.Delete || before.UID != next.UID) {
		// With another UID it is another pod: the deletion in between was missed.
		delete(c.pods, key)
		if err := c.scheduler.RemovePod(before.Pod); err != nil {
			return nil, fmt.Errorf("line %d: %w", op.Line, err)
		}
		before = nil
	}
	switch op.Kind {
	case log.Delete:
		return nil, nil
	case log.Apply:
		return nil, c.setPod(op, key, before, next)
	}
	return c.schedule(op, key, before, next)
}

func (c *Cluster) setPod(op log.Op, key types.NamespacedName, before *knownPod, next *v1.Pod) error {
	known := &knownPod{Pod: next, node: next.Spec.NodeName}
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
	c.pods[key] = known
	if err := c.scheduler.SetPod(last, next); err != nil {
		return fmt.Errorf("line %d: %w", op.Line, err)
	}
	return nil
}

func (c *Cluster) schedule(op log.Op, key types.NamespacedName, before *knownPod, next *v1.Pod) (*Outcome, error) {
	if before != nil && before.node != "" {
		return nil, op.Errorf("metadata.uid", "must be new, is %q: that pod is on node %s already", next.UID, before.node)
	}
	if op.Start != nil {
		from, can := c.scheduler.(Starter)
		if !can {
			return nil, &log.Error{Line: op.Line, Field: "start", Detail: "this scheduler cannot start its search at a given node"}
		}
		from.StartAt(*op.Start)
	}
	outcome := c.scheduler.Attempt(next)
	c.pods[key] = &knownPod{Pod: next, node: outcome.Node, assumed: true}
	if outcome.Node == "" {
		return outcome, nil
	}
	if err := c.scheduler.Assume(next, outcome.Node); err != nil {
		return nil, fmt.Errorf("line %d: %w", op.Line, err)
	}
	return outcome, nil
}

// Outcome is how an attempt ended.
type Outcome struct {
	Pod *v1.Pod
	// Node is the chosen node; empty, with Err, when none was chosen.
	Node string
	// Evaluated and Feasible are counts of nodes. As in upstream's result, both are 0 when no
	// node was chosen.
	Evaluated, Feasible int
	Err                 error
	// Nominated is the node for which a PostFilter plugin nominated the pod, and Victims are
	// the pods to be evicted there, as namespace/name, highest priority first.
	Nominated string
	Victims   []string
	// Candidates are the nodes on which a preemption would make the pod fit; nil without
	// Config.Explain.
	Candidates map[string]Candidate
	// Scores are the weighted scores by node and plugin; nil without Config.Explain.
	Scores Scores
}

// Candidate has the victims on one node, as namespace/name, highest priority first, and the
// number of them whose eviction violates a PodDisruptionBudget.
type Candidate struct {
	Victims    []string `json:"victims"`
	Violations int      `json:"violations,omitempty"`
}

// Scores are weighted scores by node and plugin.
type Scores map[string]map[string]int64

// line is an Outcome as it is printed.
type line struct {
	Pod       string   `json:"pod"`
	Node      string   `json:"node"`
	Evaluated int      `json:"evaluated"`
	Feasible  int      `json:"feasible"`
	Message   string   `json:"message,omitempty"`
	Nominated string   `json:"nominated,omitempty"`
	Victims   []string `json:"victims,omitempty"`
	Scores    Scores   `json:"scores,omitempty"`

	Candidates map[string]Candidate `json:"candidates,omitempty"`
}

// Line returns the outcome as one line of JSON, with the end of the line.
func (o *Outcome) Line() ([]byte, error) {
	l := line{
		Pod: o.Pod.Namespace + "/" + o.Pod.Name, Node: o.Node,
		Evaluated: o.Evaluated, Feasible: o.Feasible, Nominated: o.Nominated, Victims: o.Victims, Candidates: o.Candidates, Scores: o.Scores,
	}
	if o.Err != nil {
		l.Message = o.Err.Error()
	}
	text, err := json.Marshal(l)
	return append(text, '\n'), err
}
