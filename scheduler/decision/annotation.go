package decision

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/berthdev/berth/api/v1alpha1"
)

// maxAnnotation bounds the value of v1alpha1.AnnotationDecision in bytes. The API server does not validate
// the size of annotations that come with a Binding, and a value that is too large would
// make each later update of the pod fail.
const maxAnnotation = 1024

// annotationRecord is the JSON of the annotation. Its keys are stable; new ones may be
// added. Evaluated, Feasible and Top are only set under detail: Nodes.
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
	Devices    []string    `json:"devices,omitempty"`
}

// Annotation returns the value of v1alpha1.AnnotationDecision for d, at most 1 KiB. To make a longer value
// fit it removes first the worst of the best nodes, then the scores by plugin, then the
// last node, and then the last of the devices.
func Annotation(d Decision) string {
	r := annotationRecord{
		Version: 1, Profile: d.Profile, Generation: d.Generation, Hash: d.Hash, Epoch: d.Epoch,
		Node:      d.Node,
		Evaluated: d.Evaluated, Feasible: d.Feasible, Attempts: d.Attempts, Walk: d.Walk, Top: d.Top, Devices: d.Devices,
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
		case len(r.Devices) > 0:
			r.Devices = r.Devices[:len(r.Devices)-1]
		default:
			// The API server bounds the length of names, so that the rest fits.
			return string(text)
		}
	}
}

// TopNodes returns the k nodes with the highest totals, best first. winner is the index
// of the chosen node, which comes first among equals. score returns the i-th node's entry.
func TopNodes(totals []int64, winner, k int, score func(i int) NodeScore) []NodeScore {
	if k < 1 {
		return nil
	}
	// An insertion into the k best so far: k is small, and this runs for every pod.
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

// ParseAnnotation returns the Decision that an annotation's value records, as far as
// Annotation wrote it. Unknown keys are ignored.
func ParseAnnotation(annotation string) (Decision, error) {
	var r annotationRecord
	if err := json.Unmarshal([]byte(annotation), &r); err != nil {
		return Decision{}, fmt.Errorf("is not the JSON of a decision: %w", err)
	}
	if r.Version != 1 {
		return Decision{}, fmt.Errorf("has version %d, 1 is known", r.Version)
	}
	return Decision{
		Result: v1alpha1.ResultBound, Profile: r.Profile, Generation: r.Generation, Hash: r.Hash, Epoch: r.Epoch,
		Node: r.Node, Evaluated: r.Evaluated, Feasible: r.Feasible, Attempts: r.Attempts, Walk: r.Walk, Top: r.Top, Devices: r.Devices,
	}, nil
}
