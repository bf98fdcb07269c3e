package try

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berthdev/berth/scheduler/decision"
)

// Answer says where pods would go.
type Result struct {
	// Subject is what was tried: kind, namespace and name.
	Subject string `json:"subject"`
	Profile string `json:"profile"`
	// Title says which of the profile's generations was asked.
	Title string `json:"title"`
	// Nodes is how many there are.
	Nodes int      `json:"nodes"`
	Pods  []Pod    `json:"pods"`
	Notes []string `json:"notes,omitempty"`
	// sampled says that not every node was looked at.
	sampled bool
}

// Pod is what became of one pod.
type Pod struct {
	Pod string `json:"pod"`
	// Node is empty where it would wait; Message says why.
	Node string `json:"node"`
	// OneOf are the nodes that might as well be chosen, Node among them; empty
	// where there is no other.
	OneOf     []string `json:"oneOf,omitempty"`
	Evaluated int      `json:"evaluated,omitempty"`
	Feasible  int      `json:"feasible,omitempty"`
	// Top are the best nodes, with the weighted scores of each plugin.
	Top     []decision.NodeScore `json:"top,omitempty"`
	Message string               `json:"message,omitempty"`
	// Rejections are of no node where a gate refuses, which asks about none.
	Rejections []decision.Rejection `json:"rejections,omitempty"`
	// Room is how preemption would make the pod fit.
	Preemption *Preemption `json:"room,omitempty"`
}

// Room is where others would have to leave, as namespace/name, the most
// important first.
type Preemption struct {
	Node    string   `json:"node"`
	Victims []string `json:"victims"`
	// Violations is how many of them a PodDisruptionBudget would keep.
	Violations int `json:"violations,omitempty"`
}

// placed is how many pods find a node.
func (a *Result) placedPods() int {
	n := 0
	for _, pod := range a.Pods {
		if pod.Node != "" {
			n++
		}
	}
	return n
}

// byNode counts the pods that each node would get, the most first.
func (a *Result) byNode() [][]any {
	counts := map[string]int{}
	for _, pod := range a.Pods {
		if pod.Node != "" {
			counts[pod.Node]++
		}
	}
	nodes := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var rows [][]any
	for _, node := range nodes {
		rows = append(rows, []any{node, counts[node]})
	}
	return rows
}

// ties is how many pods might have gone to another node as well.
func (a *Result) ties() int {
	n := 0
	for _, pod := range a.Pods {
		if len(pod.OneOf) > 0 {
			n++
		}
	}
	return n
}

// refusals are the pods that go nowhere, by message, in the order in which they
// came.
func (a *Result) pendingGroups() [][]Pod {
	var groups [][]Pod
	at := map[string]int{}
	for _, pod := range a.Pods {
		if pod.Node != "" {
			continue
		}
		i, known := at[pod.Message]
		if !known {
			i = len(groups)
			at[pod.Message] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], pod)
	}
	return groups
}
