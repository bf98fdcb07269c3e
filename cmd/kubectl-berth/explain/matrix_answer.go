package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berthdev/berth/scheduler/decision"
)

// Matrix is what every plugin says about every node, as of now.
type Matrix struct {
	// Pod is namespace and name; On is its node, without which it is asked about.
	Pod         string `json:"pod"`
	CurrentNode string `json:"on,omitempty"`
	Profile     string `json:"profile"`
	// Title says which of the profile's generations was asked.
	Title string `json:"title"`
	// Filters and Scores are the profile's plugins, in the order of their chains.
	Filters []string `json:"filters"`
	Scores  []string `json:"scores"`
	// Refused says who refuses the pod itself: nobody was asked about nodes then.
	Rejected *PodRejection `json:"refused,omitempty"`
	Feasible int           `json:"fit"`
	Nodes    []Node        `json:"nodes"`
	Notes    []string      `json:"notes,omitempty"`
}

// Refused is a plugin's word against the pod itself.
type PodRejection struct {
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Node is what is said about one node.
type Node struct {
	Node     string `json:"node"`
	Feasible bool   `json:"fits"`
	// Failed says that a plugin failed, so that it is not known what they say.
	Failed     bool        `json:"failed,omitempty"`
	Rejections []Rejection `json:"refusals,omitempty"`
	// Total and Scores, weighted, are those of a node that fits.
	Total  *int64           `json:"total,omitempty"`
	Scores map[string]int64 `json:"scores,omitempty"`
}

// Refusal is what one plugin has against a node.
type Rejection struct {
	Plugin  string             `json:"plugin"`
	Code    string             `json:"code"`
	Missing []decision.Missing `json:"missing"`
}

// nearer orders nodes: those that fit, the best first; then those that the fewest
// plugins refuse; by name where that is the same.
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

// best are the nodes that fit and score the most.
func (m *Matrix) bestNodes() (names []string) {
	for _, n := range m.Nodes {
		if n.Feasible && *n.Total == *m.Nodes[0].Total {
			names = append(names, n.Node)
		}
	}
	return names
}

// objections are a plugin's against a node, nil where it has none.
func (n *Node) missing(plugin string) []decision.Missing {
	at := slices.IndexFunc(n.Rejections, func(r Rejection) bool { return r.Plugin == plugin })
	if at < 0 {
		return nil
	}
	return n.Rejections[at].Missing
}

// says is what a plugin says about a node, in few words; rough leaves amounts
// out, in which nodes differ that are alike else.
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
		switch {
		case a.Resource != "" && rough:
			words = append(words, a.Resource)
		case a.Resource != "":
			words = append(words, a.Resource+": "+a.Requested+", free "+a.Free)
		default:
			words = append(words, strings.TrimPrefix(a.Reason, "node(s) "))
		}
	}
	if rough && against[0].Resource != "" {
		return "too little " + strings.Join(words, ", ")
	}
	return strings.Join(words, "; ")
}
