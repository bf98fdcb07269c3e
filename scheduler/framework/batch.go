package framework

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// A form is what a plugin makes of the pods of one class: it judges many nodes
// in one call, over Columns. Filter and Score of the contract are its plain
// twins, and define what it has to say. A form belongs to the loop.

// Refusal is why a form refuses a node, in a number of its own: its Status
// explains it.
type RejectionCode uint16

const (
	// Fits is no refusal.
	NotRejected RejectionCode = 0
	// Broken says that the plugin failed: it has to be asked in the plain way,
	// which tells what is wrong.
	FilterFailed RejectionCode = 1<<16 - 1
)

// FilterForm refuses nodes.
type BatchFilter interface {
	// Filter puts the refusal of each of slots, or Fits, into refusals.
	Filter(slots []Slot, refusals []RejectionCode)
	// Status is what Filter of the contract returns in place of a Refusal.
	Status(refusal RejectionCode) *fwk.Status
}

// IdleForm is a FilterForm, or a ScoreForm, that knows when there is nothing to
// ask it: it refuses no node of those that there are now, or scores all with 0.
type IdleReporter interface{ Idle() bool }

func isIdle(form any) bool {
	f, ok := form.(IdleReporter)
	return ok && f.Idle()
}

// LiveFilterForm is a FilterForm whose verdicts move with the pods on other
// nodes, so that nobody remembers them.
type UncachedBatchFilter interface {
	BatchFilter
	// Begin comes before the calls of an attempt. skip says that PreFilter of
	// the contract would answer Skip; without ok the form is of no more use.
	Begin() (skip, ok bool)
}

// Scoring is what came of a call of a ScoreForm.
type ScoreResult int

// What can come of it.
const (
	// Scored is the usual.
	Scored ScoreResult = iota
	// NotScored says that PreScore of the contract would answer Skip.
	ScoreSkipped
	// ScoringBroken says that the plugin has to be asked in the plain way.
	ScoreFailed
)

// ScoreForm scores nodes.
type BatchScore interface {
	// Score puts the score of each of slots, before normalisation, into scores.
	// Of a plugin whose score depends on the nodes that are scored together,
	// slots are those.
	Score(slots []Slot, scores []int64) ScoreResult
}

// NormalForm is a ScoreForm whose scores have to be normalised.
type BatchNormalizer interface {
	BatchScore
	// Normalize normalises the scores of the last call of Score.
	Normalize(scores []int64)
}

// KeptScoreForm is a ScoreForm that reads counts which may no longer be kept.
type IncrementalBatchScore interface {
	BatchScore
	// Current reports whether they are; if not, the form is of no more use.
	Current() bool
}

// MindingForm is a remembered form that tells which of the facets that its
// plugin reads its verdicts so far have depended on.
type DependencyReporter interface {
	Dependencies() Facets
}

// FilterBatcher is a Filter plugin with a form. Its verdicts are remembered by
// node unless its Reads name what no node's version covers.
type BatchFilterPlugin interface {
	ReadsDeclarer
	// FilterForm returns the form for pods like pod, for which state holds what
	// PreFilter wrote. A nil form with ok refuses no node, ever. Without ok
	// there is no form for such pods: a plugin that is remembered is then asked
	// node by node, and for another one pods go the plain way.
	BatchFilter(state fwk.CycleState, pod *v1.Pod, columns *Columns) (form BatchFilter, ok bool)
}

// ScoreBatcher is a Score plugin with a form; see FilterBatcher. state holds
// what PreScore wrote only where the score is remembered.
type BatchScorePlugin interface {
	ReadsDeclarer
	// ScoreForm returns the form for pods like pod. A nil form with ok skips
	// scoring.
	BatchScore(state fwk.CycleState, pod *v1.Pod, columns *Columns) (form BatchScore, ok bool)
}

// moving are the facets that no version of a node covers.
const uncacheableFacets = DomainCounts | NamespaceLabels | PodOwners | StorageObjects | ClaimsInUse | ScoredTogether

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
