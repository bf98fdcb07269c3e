package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berthdev/berth/api/v1alpha1"
)

// Matrix is what every plugin says about every node now.
type Matrix struct {
	// Pod is namespace/name. CurrentNode is the pod's node; the pod is evaluated as if it were
	// pending.
	Pod         string `json:"pod"`
	CurrentNode string `json:"currentNode,omitempty"`
	Profile     string `json:"profile"`
	// Title says which generation of the profile was evaluated.
	Title string `json:"title"`
	// Filters and Scores are the plugins of the profile, in their order.
	Filters []string `json:"filters"`
	Scores  []string `json:"scores"`
	// Rejected is set if a plugin rejects the pod before any node is filtered.
	Rejected *PodRejection `json:"rejected,omitempty"`
	Feasible int           `json:"feasible"`
	Nodes    []Node        `json:"nodes"`
	Notes    []string      `json:"notes,omitempty"`
}

// PodRejection is the rejection of a pod by a plugin.
type PodRejection struct {
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Node is the result for one node.
type Node struct {
	Node     string `json:"node"`
	Feasible bool   `json:"feasible"`
	// Failed: a plugin failed, so that the results are not known.
	Failed     bool        `json:"failed,omitempty"`
	Rejections []Rejection `json:"rejections,omitempty"`
	// Total and Scores, weighted, are set for a feasible node.
	Total  *int64           `json:"total,omitempty"`
	Scores map[string]int64 `json:"scores,omitempty"`
}

// Rejection is why a plugin rejects a node.
type Rejection struct {
	Plugin  string             `json:"plugin"`
	Code    string             `json:"code"`
	Missing []v1alpha1.Missing `json:"missing"`
}

// compareNodes orders nodes: feasible ones first, the best at the head; then those that the
// fewest plugins reject; equal ones by name.
func compareNodes(a, b Node) int {
	if a.Feasible != b.Feasible {
		if a.Feasible {
			return -1
		}
		return 1
	}
	total := func(n Node) int64 {
		if n.Total == nil {
			return 0
		}
		return *n.Total
	}
	return cmp.Or(cmp.Compare(total(b), total(a)), cmp.Compare(len(a.Rejections), len(b.Rejections)), cmp.Compare(a.Node, b.Node))
}

// bestNodes returns the feasible nodes with the highest score.
func (m *Matrix) bestNodes() (names []string) {
	for _, n := range m.Nodes {
		if n.Feasible && *n.Total == *m.Nodes[0].Total {
			names = append(names, n.Node)
		}
	}
	return names
}

// missing returns why a plugin rejects the node; nil if it does not.
func (n *Node) missing(plugin string) []v1alpha1.Missing {
	at := slices.IndexFunc(n.Rejections, func(r Rejection) bool { return r.Plugin == plugin })
	if at < 0 {
		return nil
	}
	return n.Rejections[at].Missing
}

// verdict returns the result of a plugin for a node in a few words. rough leaves out
// amounts, so that nodes which differ only in them compare equal.
func (m *Matrix) verdict(n *Node, plugin string, rough bool) string {
	against := n.missing(plugin)
	switch {
	case n.Failed:
		return "failed"
	case len(against) == 0 && m.Rejected != nil:
		return "?"
	case len(against) == 0:
		return "ok"
	}
	var words []string
	for _, a := range against {
		switch lacks := cmp.Or(a.Resource, a.DeviceRequest); {
		case lacks != "" && rough:
			words = append(words, lacks)
		case lacks != "":
			words = append(words, lacks+": "+a.Requested+" > "+a.Free+" free")
		default:
			words = append(words, strings.TrimPrefix(a.Reason, "node(s) "))
		}
	}
	if rough && against[0].Reason == "" {
		return "insufficient " + strings.Join(words, ", ")
	}
	return strings.Join(words, "; ")
}
