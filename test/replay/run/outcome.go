package run

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
)

// Outcome is how an attempt ended.
type Outcome struct {
	Pod *v1.Pod
	// Node is the one that was chosen; empty, and Err says why, when none was.
	Node string
	// Evaluated is how many nodes were asked, Feasible how many of them fit.
	// Like upstream's result, both are 0 when no node was chosen.
	Evaluated, Feasible int
	Err                 error
	// Nominated is the node where a PostFilter plugin promised the pod room, and
	// Victims are those who would have to leave it, as namespace/name, the most
	// important first.
	Nominated string
	Victims   []string
	// Candidates are the nodes where others' leaving would make room; nil
	// unless they are explained.
	Candidates map[string]Candidate
	// Scores are the weighted scores of the nodes that were scored, by node and
	// plugin; nil unless they are explained.
	Scores Scores
}

// Candidate is who would have to leave one node, as namespace/name, the most
// important first, and how many of them a PodDisruptionBudget would keep.
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
