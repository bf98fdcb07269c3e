package decision

import (
	"encoding/json"
	"slices"
)

// AnnotationKey is the annotation that a Binding carries. The API server
// merges it into the pod in the same write, so that it is there exactly when
// the pod is bound.
const AnnotationKey = "berth.dev/decision"

// maxAnnotation bounds the annotation's value in bytes. The API server does
// not check annotations that come with a Binding, and one too large would
// make every later update of the pod fail.
const maxAnnotation = 1024

// record is the annotation's value. Keys stay; new ones may come. Evaluated,
// Feasible and Top are there under detail: Nodes alone.
type annotationRecord struct {
	Version    int         `json:"v"`
	Profile    string      `json:"profile"`
	Generation int64       `json:"generation"`
	Hash       string      `json:"hash"`
	Epoch      int64       `json:"epoch"`
	Node       string      `json:"node"`
	Evaluated  int         `json:"evaluated,omitempty"`
	Feasible   int         `json:"feasible,omitempty"`
	Attempts   int         `json:"attempts"`
	Walk       Walk        `json:"walk,omitzero"`
	Top        []NodeScore `json:"top,omitempty"`
}

// Annotation returns the value of AnnotationKey for d, at most 1 KiB. Where it
// would be longer, the last of the best nodes goes first, then the shares of
// the plugins, then the rest of the best nodes.
func Annotation(d Decision) string {
	r := annotationRecord{
		Version: 1, Profile: d.Profile, Generation: d.Generation, Hash: d.Hash, Epoch: d.Epoch,
		Node:      d.Node,
		Evaluated: d.Evaluated, Feasible: d.Feasible, Attempts: d.Attempts, Walk: d.Walk, Top: d.Top,
	}
	for {
		text, err := json.Marshal(r)
		if err == nil && len(text) <= maxAnnotation {
			return string(text)
		}
		switch {
		case len(r.Top) > 1:
			r.Top = r.Top[:len(r.Top)-1]
		case len(r.Top) == 1 && r.Top[0].Plugins != nil:
			r.Top = []NodeScore{{Node: r.Top[0].Node, Score: r.Top[0].Score}}
		case len(r.Top) == 1:
			r.Top = nil
		default:
			// Names are bounded by the API server, so that the rest fits.
			return string(text)
		}
	}
}

// Best returns the k nodes with the highest totals, best first; winner, the
// index of the node that was chosen, comes before its equals. score returns
// the i-th node's record.
func TopNodes(totals []int64, winner, k int, score func(i int) NodeScore) []NodeScore {
	if k < 1 {
		return nil
	}
	// Few are wanted of many, for every pod: the many are not sorted.
	top := make([]int, 0, k+1)
	for i := range totals {
		if len(top) == k && totals[i] <= totals[top[k-1]] && i != winner {
			continue
		}
		at := len(top)
		for at > 0 && (totals[i] > totals[top[at-1]] || i == winner && totals[i] == totals[top[at-1]]) {
			at--
		}
		top = slices.Insert(top, at, i)
		top = top[:min(k, len(top))]
	}
	var best []NodeScore
	for _, i := range top {
		best = append(best, score(i))
	}
	return best
}
