package try

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Result says which nodes the pods would be scheduled to.
type Result struct {
	// Subject is what was tried: kind, namespace and name.
	Subject string `json:"subject"`
	Profile string `json:"profile"`
	// Title says which generation of the profile was used.
	Title string `json:"title"`
	// Nodes is the number of nodes.
	Nodes int `json:"nodes"`
	// Group is set where the pods form a group, and the profile schedules groups.
	Group *Group   `json:"group,omitempty"`
	Pods  []Pod    `json:"pods"`
	Notes []string `json:"notes,omitempty"`
	// sampled: not all nodes were evaluated.
	sampled bool
}

// Pod is the result for one pod.
type Pod struct {
	Pod string `json:"pod"`
	// Node is empty if the pod would stay pending; Message says why.
	Node string `json:"node"`
	// OneOf are the nodes with the same score, Node among them; empty if there is only one.
	OneOf     []string `json:"oneOf,omitempty"`
	Evaluated int      `json:"evaluated,omitempty"`
	Feasible  int      `json:"feasible,omitempty"`
	// Top are the best nodes with the weighted scores of the plugins.
	Top []decision.NodeScore `json:"top,omitempty"`
	// Devices are the devices that the pod would get, each as name=driver/pool/device: name
	// is that of the claim in the pod's spec, or of the extended resource.
	Devices []string `json:"devices,omitempty"`
	Message string   `json:"message,omitempty"`
	// Rejections name no node if a PreEnqueue plugin rejects the pod, since no node is evaluated
	// then.
	Rejections []v1alpha1.Rejection `json:"rejections,omitempty"`
	// DeviceRequests says what the requests for devices find, if the pod would stay pending for
	// lack of them.
	DeviceRequests []v1alpha1.DeviceRequestCounts `json:"deviceRequests,omitempty"`
	// Preemption is set if preemption would make a node feasible.
	Preemption *Preemption `json:"preemption,omitempty"`
}

// Preemption is a node and its victims, as namespace/name, the most important first. The
// victims of a group are on several nodes, and Node is empty.
type Preemption struct {
	Node    string   `json:"node,omitempty"`
	Victims []string `json:"victims"`
	// Violations is the number of victims whose PodDisruptionBudget would be violated.
	Violations int `json:"violations,omitempty"`
}

// placedPods returns how many pods would be scheduled.
func (a *Result) placedPods() int {
	n := 0
	for _, pod := range a.Pods {
		if pod.Node != "" {
			n++
		}
	}
	return n
}

// byNode returns the number of pods that each node would get, the most first.
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

// ties returns for how many pods several nodes had the best score.
func (a *Result) ties() int {
	n := 0
	for _, pod := range a.Pods {
		if len(pod.OneOf) > 0 {
			n++
		}
	}
	return n
}

// pendingGroups returns the pods that would stay pending, grouped by message, in their
// order.
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
