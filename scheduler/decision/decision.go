// Package decision holds what was decided and why: the record of each attempt,
// the annotation that a Binding carries, and the bounded ledger that the
// profile's status is published from.
package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/fault"
)

// Result is how an attempt ended, in the words of api.md.
type Result string

// The results that an attempt can have.
const (
	Bound         Result = "Bound"
	Unschedulable Result = "Unschedulable"
	Error         Result = "Error"
)

// Decision is the record of one attempt. It is a value: nobody changes one
// after it was recorded.
type Decision struct {
	Time       time.Time
	Namespace  string
	Pod        string
	UID        types.UID
	Result     Result
	Node       string
	Profile    string
	Generation int64
	Hash       string
	// Epoch numbers the leadership that decided.
	Epoch int64
	// Message is the refusal's or the error's text; empty for a bound pod.
	Message   string
	Evaluated int
	Feasible  int
	Attempts  int
	// Walk is where the attempt stood among all others.
	Walk Walk
	// Top are the best nodes, best first, at most the profile's topScores.
	Top []NodeScore
}

// WithoutNodes returns d without what it says of other nodes than the pod's own:
// which were best, how many were evaluated and how many were feasible.
func (d Decision) WithoutNodes() Decision {
	if !fault.AnnotationNamesNodes {
		d.Top, d.Evaluated, d.Feasible = nil, 0, 0
	}
	return d
}

// Walk is where an attempt stood among all others, and what it had heard of: with
// it, what was decided can be put in order again, and decided again.
type Walk struct {
	// Seq numbers the attempts of one process, from 1 on, refused ones among them.
	Seq uint64 `json:"seq"`
	// Start is the index of the node that the walk started at.
	Start int `json:"start"`
	// Order is a checksum of the nodes in the order in which they are tried.
	Order uint32 `json:"order"`
	// Nodes and Pods are the resource versions of the newest change of a node, and
	// of a pod that has one, that the attempt had heard of.
	Nodes uint64 `json:"nodes"`
	Pods  uint64 `json:"pods"`
}

// NodeScore is a scored node: its total, and each plugin's weighted share.
type NodeScore struct {
	Node    string           `json:"node"`
	Score   int64            `json:"score"`
	Plugins map[string]int64 `json:"plugins,omitempty"`
}

// QueueCounts says where a profile's waiting pods are.
type QueueCounts struct {
	Active, Backoff, Unschedulable, Gated, Waiting, Held, Quarantined, InFlight int
}

// Pending is how many pods wait, in whatever place; pods in flight are not
// among them.
func (c QueueCounts) Pending() int {
	return c.Active + c.Backoff + c.Unschedulable + c.Gated + c.Waiting + c.Held + c.Quarantined
}
