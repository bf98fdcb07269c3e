package framework

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// filterByNode is the form of a Filter plugin that has none: it is asked node
// by node.
type filterByNode struct {
	fwk.FilterPlugin
	ctx     context.Context
	state   fwk.CycleState
	pod     *v1.Pod
	columns *Columns
	known   map[string]Refusal
	list    []*fwk.Status
}

// maxStatuses bounds the answers of one plugin that are told apart.
const maxStatuses = 1024

func (f *filterByNode) Filter(slots []Slot, refusals []Refusal) {
	for i, slot := range slots {
		status := f.FilterPlugin.Filter(f.ctx, f.state, f.pod, f.columns.Nodes[slot])
		switch {
		case status.IsSuccess():
			refusals[i] = Fits
		case !status.IsRejected():
			refusals[i] = Broken
		default:
			refusals[i] = f.number(status)
		}
	}
}

// number numbers a status; those with the same code and reasons are the same.
func (f *filterByNode) number(status *fwk.Status) Refusal {
	key := status.Code().String() + "\x00" + strings.Join(status.Reasons(), "\x00")
	if number, known := f.known[key]; known {
		return number
	}
	if len(f.list) == maxStatuses {
		return Broken
	}
	if f.known == nil {
		f.known = map[string]Refusal{}
	}
	f.list = append(f.list, status.WithPlugin(f.Name()))
	f.known[key] = Refusal(len(f.list))
	return f.known[key]
}

func (f *filterByNode) Minds() Facets { return readsOf(f.FilterPlugin).Filter }

func (f *filterByNode) Status(refusal Refusal) *fwk.Status { return f.list[refusal-1] }

// scoreByNode is the form of a Score plugin that has none and does not
// normalise.
type scoreByNode struct {
	fwk.ScorePlugin
	ctx     context.Context
	state   fwk.CycleState
	pod     *v1.Pod
	columns *Columns
}

func (s *scoreByNode) Minds() Facets { return readsOf(s.ScorePlugin).Score }

func (s *scoreByNode) Score(slots []Slot, scores []int64) Scoring {
	for i, slot := range slots {
		score, status := s.ScorePlugin.Score(s.ctx, s.state, s.pod, s.columns.Nodes[slot])
		if !status.IsSuccess() || score < fwk.MinScore || score > fwk.MaxScore {
			return ScoringBroken
		}
		scores[i] = score
	}
	return Scored
}
