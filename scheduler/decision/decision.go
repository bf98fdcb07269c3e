// Package decision holds what was decided and why: the record of each attempt,
// the annotation that a Binding carries, and the bounded ledger that the
// profile's status is published from.
package decision

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Decision is the record of one attempt. It is a value: nobody changes it after it was
// recorded.
type Decision struct {
	Time       time.Time               `json:"time,omitzero"`
	Namespace  string                  `json:"namespace,omitempty"`
	Pod        string                  `json:"pod,omitempty"`
	UID        types.UID               `json:"uid,omitempty"`
	Result     v1alpha1.DecisionResult `json:"result"` // Bound, Unschedulable or Error
	Node       string                  `json:"node,omitempty"`
	Profile    string                  `json:"profile"`
	Generation int64                   `json:"generation"`
	Hash       string                  `json:"hash"`
	// Epoch is the leader epoch of the process that decided.
	Epoch int64 `json:"epoch"`
	// Message is the error's text; empty for a bound pod.
	Message   string `json:"message,omitempty"`
	Evaluated int    `json:"evaluated"`
	Feasible  int    `json:"feasible"`
	Attempts  int    `json:"attempts"`
	// Walk says where the attempt stood in the sequence of all attempts.
	Walk Walk `json:"walk,omitzero"`
	// Top are the best nodes, best first, at most the profile's topScores.
	Top []NodeScore `json:"top,omitempty"`
	// Devices are the devices that the pod got, each as name=driver/pool/device: name is
	// that of the claim in the pod's spec, or of the extended resource.
	Devices []string `json:"devices,omitempty"`
}

// WithoutNodes returns d without what it says of other nodes than the chosen one: the best
// nodes and the numbers of evaluated and feasible nodes.
func (d Decision) WithoutNodes() Decision {
	d.Top, d.Evaluated, d.Feasible = nil, 0, 0
	return d
}

// Walk is where an attempt stood in the sequence of all attempts, and which versions of
// the cluster it saw. Replay uses it to order recorded decisions and to make them again.
type Walk struct {
	// Seq numbers the attempts of one process from 1, failed ones included.
	Seq uint64 `json:"seq"`
	// Start is the index of the node at which the search began.
	Start int `json:"start"`
	// Order is a checksum of the node order.
	Order uint32 `json:"order"`
	// Nodes and Pods are the newest resource versions of a node, and of a pod with a node,
	// that the snapshot contained.
	Nodes uint64 `json:"nodes"`
	Pods  uint64 `json:"pods"`
}

// NodeScore is a scored node: its total, and each plugin's weighted score.
type NodeScore struct {
	Node    string           `json:"node"`
	Score   int64            `json:"score"`
	Plugins map[string]int64 `json:"plugins,omitempty"`
}

// QueueCounts counts a profile's pending pods by where they wait.
type QueueCounts struct {
	Active, Backoff, Unschedulable, Gated, Waiting, Held, Quarantined, InFlight int
}

// Pending returns the number of pods that wait, in all places but InFlight.
func (c QueueCounts) Pending() int {
	return c.Active + c.Backoff + c.Unschedulable + c.Gated + c.Waiting + c.Held + c.Quarantined
}
