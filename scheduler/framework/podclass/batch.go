package podclass

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// Batch filters and batch scores evaluate many nodes for one pod class in one
// call, over Columns. Filter and Score of the plugin are their reference
// implementation and define the result. Only the scheduling loop calls them.

// RejectionCode is why a batch filter rejects a node, as a number that only
// this filter knows. BatchFilter.Status translates it.
type RejectionCode uint16

const (
	// NotRejected means that the node passes.
	NotRejected RejectionCode = 0
	// FilterFailed means that the plugin failed. The caller runs the plugin's
	// own Filter, which returns the error.
	FilterFailed RejectionCode = 1<<16 - 1
)

// BatchFilter is a Filter plugin for one pod class.
type BatchFilter interface {
	// Filter sets refusals[i] to the rejection of slots[i], or to NotRejected.
	Filter(slots []counts.Slot, codes []RejectionCode)
	// Status returns the status that the plugin's Filter returns for a
	// rejection.
	Status(code RejectionCode) *fwk.Status
}

// IdleReporter is a BatchFilter or BatchScore that may have nothing to do:
// while Idle returns true it rejects no node of the snapshot, or scores every
// node 0.
type IdleReporter interface{ Idle() bool }

func isIdle(form any) bool {
	f, ok := form.(IdleReporter)
	return ok && f.Idle()
}

// UncachedBatchFilter is a BatchFilter whose results depend on pods of other
// nodes, so that they are not cached.
type UncachedBatchFilter interface {
	BatchFilter
	// Begin is called once before the other calls of an attempt. skip is true
	// if PreFilter of the plugin would return Skip. ok is false if the filter
	// can no longer be used.
	Begin() (skip, ok bool)
}

// ScoreResult is the outcome of BatchScore.Score.
type ScoreResult int

// Outcomes of BatchScore.Score.
const (
	// Scored means that the scores are set.
	Scored ScoreResult = iota
	// ScoreSkipped means that PreScore of the plugin would return Skip.
	ScoreSkipped
	// ScoreFailed means that the plugin failed. The caller runs the plugin's
	// own Score, which returns the error.
	ScoreFailed
)

// BatchScore is a Score plugin for one pod class.
type BatchScore interface {
	// Score sets scores[i] to the score of slots[i] before normalization. If
	// the plugin's Reads name ScoredTogether, slots are all nodes that the
	// attempt scores.
	Score(slots []counts.Slot, scores []int64) ScoreResult
}

// BatchNormalizer is a BatchScore whose scores need normalization.
type BatchNormalizer interface {
	BatchScore
	// Normalize normalizes the scores of the last call of Score.
	Normalize(scores []int64)
}

// IncrementalBatchScore is a BatchScore that reads incremental counts.
type IncrementalBatchScore interface {
	BatchScore
	// Current reports whether the counts are still updated with the snapshot.
	// If they are not, the BatchScore can no longer be used.
	Current() bool
}

// DependencyReporter is a cached BatchFilter or BatchScore that knows on which
// facets its results so far depended, out of those that its plugin's Reads
// name.
type DependencyReporter interface {
	Dependencies() framework.Facets
}

// BatchFilterPlugin is a Filter plugin with a batch form. Its results are
// cached by node unless its Reads name uncacheable facets.
type BatchFilterPlugin interface {
	framework.ReadsDeclarer
	// BatchFilter returns the batch filter for the class of pod. state holds
	// what PreFilter wrote for it. A nil form with ok rejects no node. ok is
	// false if there is none for such pods: then a cacheable plugin is called
	// node by node, and for an uncacheable one the pods are scheduled by the
	// reference.
	BatchFilter(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (form BatchFilter, ok bool)
}

// BatchScorePlugin is a Score plugin with a batch form, like BatchFilterPlugin.
// state holds what PreScore wrote only if the score is cacheable.
type BatchScorePlugin interface {
	framework.ReadsDeclarer
	// BatchScore returns the batch score for the class of pod. A nil form with
	// ok means that the plugin does not score such pods.
	BatchScore(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (form BatchScore, ok bool)
}

// uncacheableFacets are the facets that can change without a new version of the
// node (Columns.Versions).
const uncacheableFacets = framework.DomainCounts | framework.NamespaceLabels | framework.PodOwners | framework.StorageObjects | framework.ClaimsInUse | framework.DeviceObjects | framework.ScoredTogether

// batchFilterAdapter calls a Filter plugin without a batch form node by node.
type batchFilterAdapter struct {
	fwk.FilterPlugin
	ctx      context.Context
	state    fwk.CycleState
	pod      *v1.Pod
	columns  *counts.Columns
	codes    map[string]RejectionCode
	statuses []*fwk.Status
}

// maxStatuses bounds the number of different statuses of one plugin.
const maxStatuses = 1024

func (f *batchFilterAdapter) Filter(slots []counts.Slot, codes []RejectionCode) {
	for i, slot := range slots {
		status := f.FilterPlugin.Filter(f.ctx, f.state, f.pod, f.columns.Nodes[slot])
		switch {
		case status.IsSuccess():
			codes[i] = NotRejected
		case !status.IsRejected():
			codes[i] = FilterFailed
		default:
			codes[i] = f.codeFor(status)
		}
	}
}

// codeFor returns a number for status. Statuses with the same code and reasons
// have the same number.
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

func (f *batchFilterAdapter) Dependencies() framework.Facets {
	return framework.ReadsOf(f.FilterPlugin).Filter
}

func (f *batchFilterAdapter) Status(code RejectionCode) *fwk.Status { return f.statuses[code-1] }

// batchScoreAdapter calls a Score plugin without a batch form node by node. The
// plugin has no ScoreExtensions.
type batchScoreAdapter struct {
	fwk.ScorePlugin
	ctx     context.Context
	state   fwk.CycleState
	pod     *v1.Pod
	columns *counts.Columns
}

func (s *batchScoreAdapter) Dependencies() framework.Facets {
	return framework.ReadsOf(s.ScorePlugin).Score
}

func (s *batchScoreAdapter) Score(slots []counts.Slot, scores []int64) ScoreResult {
	for i, slot := range slots {
		score, status := s.ScorePlugin.Score(s.ctx, s.state, s.pod, s.columns.Nodes[slot])
		if !status.IsSuccess() || score < fwk.MinScore || score > fwk.MaxScore {
			return ScoreFailed
		}
		scores[i] = score
	}
	return Scored
}
