package framework

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// filterByNode is the form of a Filter plugin that has none: it is asked node
// by node.
type batchFilterAdapter struct {
	fwk.FilterPlugin
	ctx      context.Context
	state    fwk.CycleState
	pod      *v1.Pod
	columns  *Columns
	codes    map[string]RejectionCode
	statuses []*fwk.Status
}

// maxStatuses bounds the answers of one plugin that are told apart.
const maxStatuses = 1024

func (f *batchFilterAdapter) Filter(slots []Slot, refusals []RejectionCode) {
	for i, slot := range slots {
		status := f.FilterPlugin.Filter(f.ctx, f.state, f.pod, f.columns.Nodes[slot])
		switch {
		case status.IsSuccess():
			refusals[i] = NotRejected
		case !status.IsRejected():
			refusals[i] = FilterFailed
		default:
			refusals[i] = f.codeFor(status)
		}
	}
}

// number numbers a status; those with the same code and reasons are the same.
func (f *batchFilterAdapter) codeFor(status *fwk.Status) RejectionCode {
	key := status.Code().String() + "\x00" + strings.Join(status.Reasons(), "\x00")
	if number, known := f.codes[key]; known {
		return number
	}
	if len(f.statuses) == maxStatuses {
		return FilterFailed
	}
	if f.codes == nil {
		f.codes = map[string]RejectionCode{}
	}
	f.statuses = append(f.statuses, status.WithPlugin(f.Name()))
	f.codes[key] = RejectionCode(len(f.statuses))
	return f.codes[key]
}

func (f *batchFilterAdapter) Dependencies() Facets { return readsOf(f.FilterPlugin).Filter }

func (f *batchFilterAdapter) Status(refusal RejectionCode) *fwk.Status { return f.statuses[refusal-1] }

// scoreByNode is the form of a Score plugin that has none and does not
// normalise.
type batchScoreAdapter struct {
	fwk.ScorePlugin
	ctx     context.Context
	state   fwk.CycleState
	pod     *v1.Pod
	columns *Columns
}

func (s *batchScoreAdapter) Dependencies() Facets { return readsOf(s.ScorePlugin).Score }

func (s *batchScoreAdapter) Score(slots []Slot, scores []int64) ScoreResult {
	for i, slot := range slots {
		score, status := s.ScorePlugin.Score(s.ctx, s.state, s.pod, s.columns.Nodes[slot])
		if !status.IsSuccess() || score < fwk.MinScore || score > fwk.MaxScore {
			return ScoreFailed
		}
		scores[i] = score
	}
	return Scored
}
