package cycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// Matrix is the result of every plugin for every node. An attempt, in contrast,
// stops at the first plugin that rejects a node, and at the last node it needs.
type Matrix struct {
	// PreFilterStatus is the status with which PreFilter rejected the pod, so
	// that no node was evaluated; nil if it did not.
	PreFilterStatus *fwk.Status
	// Rows are in the order of the snapshot's nodes.
	Rows []Row
}

// Row is the result for one node.
type Row struct {
	Node string
	// Failed says that a plugin failed, so that the result is incomplete.
	Failed bool
	// Rejections are in the order of the Filter chain; none if the pod fits.
	Rejections []PluginRejection
	// Score is the node's score among all feasible nodes; nil if the pod does
	// not fit.
	Score *decision.NodeScore
}

// Feasible reports whether the pod fits on the node.
func (r *Row) Feasible() bool { return !r.Failed && len(r.Rejections) == 0 }

// PluginRejection is the rejection of a node by one plugin.
type PluginRejection struct {
	Plugin string
	// Code is the name of the status code.
	Code    string
	Missing []v1alpha1.Missing
}

// EvaluateAllNodes runs every Filter plugin for every node, and every Score
// plugin for the feasible ones. It changes neither the snapshot nor the start
// index of the next attempt. The error is a plugin's.
func EvaluateAllNodes(ctx context.Context, r Request) (*Matrix, error) {
	preFiltered := runPreFilter(ctx, r)
	if !preFiltered.status.IsSuccess() {
		if !preFiltered.status.IsRejected() {
			return nil, preFiltered.status.AsError()
		}
		return rejectedByPreFilter(r, preFiltered.status), nil
	}
	m := &Matrix{Rows: make([]Row, 0, r.Snapshot.Len())}
	var feasible []fwk.NodeInfo
	for _, node := range r.Snapshot.Nodes() {
		row := evaluateNode(ctx, r, preFiltered, node)
		if row.Feasible() {
			feasible = append(feasible, node)
		}
		m.Rows = append(m.Rows, row)
	}
	return m, m.score(ctx, r, feasible)
}

func rejectedByPreFilter(r Request, status *fwk.Status) *Matrix {
	m := &Matrix{PreFilterStatus: status}
	rejection := pluginRejection(framework.NodeRejection{Status: status})
	for _, node := range r.Snapshot.Nodes() {
		m.Rows = append(m.Rows, Row{Node: node.Node().Name, Rejections: []PluginRejection{rejection}})
	}
	return m
}

// evaluateNode runs every Filter plugin for one node.
func evaluateNode(ctx context.Context, r Request, preFiltered *preFilterResult, node fwk.NodeInfo) Row {
	row := Row{Node: node.Node().Name}
	missing, ok := r.Framework.AllRejections(ctx, r.State, r.Pod, node)
	row.Failed = !ok
	for _, m := range missing {
		rejection := pluginRejection(m)
		at := slices.IndexFunc(row.Rejections, func(known PluginRejection) bool { return known.Plugin == rejection.Plugin })
		if at < 0 {
			row.Rejections = append(row.Rejections, rejection)
		} else {
			row.Rejections[at].Missing = append(row.Rejections[at].Missing, rejection.Missing...)
		}
	}
	if row.Feasible() && !preFiltered.nodes.AllNodes() && !preFiltered.nodes.NodeNames.Has(row.Node) {
		plugins := strings.Join(sets.List(preFiltered.plugins), " and ")
		row.Rejections = []PluginRejection{{Plugin: plugins, Code: fwk.UnschedulableAndUnresolvable.String(), Missing: []v1alpha1.Missing{
			{Plugin: plugins, Reason: "is not among the nodes that PreFilter allows"},
		}}}
	}
	return row
}

func pluginRejection(m framework.NodeRejection) PluginRejection {
	return PluginRejection{
		Plugin: m.Plugin(), Code: m.Code().String(),
		Missing: missingFrom(m, func(_, reason string) string { return reason }),
	}
}

// score sets the scores of the feasible nodes' rows.
func (m *Matrix) score(ctx context.Context, r Request, feasible []fwk.NodeInfo) error {
	if len(feasible) == 0 {
		return nil
	}
	if status := r.Framework.RunPreScorePlugins(ctx, r.State, r.Pod, feasible); !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	scores, status := r.Framework.ScoreNodes(ctx, r.State, r.Pod, feasible)
	if !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	all, next := &referenceScores{feasible, scores}, 0
	for i := range m.Rows {
		if m.Rows[i].Feasible() {
			score := all.Score(next)
			m.Rows[i].Score, next = &score, next+1
		}
	}
	return nil
}
