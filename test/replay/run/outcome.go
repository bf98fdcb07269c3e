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
	// Scores are the weighted scores of the nodes that were scored, by node and
	// plugin; nil unless they are explained.
	Scores Scores
}

// Scores are weighted scores by node and plugin.
type Scores map[string]map[string]int64

// line is an Outcome as it is printed.
type line struct {
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Evaluated int    `json:"evaluated"`
	Feasible  int    `json:"feasible"`
	Message   string `json:"message,omitempty"`
	Scores    Scores `json:"scores,omitempty"`
}

// Line returns the outcome as one line of JSON, with the end of the line.
func (o *Outcome) Line() ([]byte, error) {
	l := line{
		Pod: o.Pod.Namespace + "/" + o.Pod.Name, Node: o.Node,
		Evaluated: o.Evaluated, Feasible: o.Feasible, Scores: o.Scores,
	}
	if o.Err != nil {
		l.Message = o.Err.Error()
	}
	text, err := json.Marshal(l)
	return append(text, '\n'), err
}
