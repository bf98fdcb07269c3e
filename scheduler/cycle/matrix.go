package cycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// Matrix is what every plugin says about every node, where an attempt asks no
// further than the first that refuses, and no more nodes than it needs.
type Matrix struct {
	// Refused is who refuses the pod itself and why, so that no node was asked;
	// nil where nobody does.
	PreFilterStatus *fwk.Status
	// Rows are in the order in which nodes are tried.
	Rows []Row
}

// Row is what is said about one node.
type Row struct {
	Node string
	// Failed says that a plugin failed, so that it is not known what they say.
	Failed bool
	// Refusals are in the order of the Filter chain; none where the pod fits.
	Rejections []PluginRejection
	// Score is what the node was given beside all others that fit; nil where the
	// pod does not fit.
	Score *decision.NodeScore
}

// Fits says whether the pod does.
func (r *Row) Feasible() bool { return !r.Failed && len(r.Rejections) == 0 }

// Refusal is what one plugin has against a node.
type PluginRejection struct {
	Plugin string
	// Code is the refusal's, in the framework's words.
	Code    string
	Missing []decision.Missing
}

// Everywhere asks every Filter plugin about every node, and every Score plugin
// about those that fit. It moves nothing: neither the snapshot nor where the next
// walk starts. The error is a plugin's.
func EvaluateAllNodes(ctx context.Context, r Request) (*Matrix, error) {
	said := runPreFilter(ctx, r)
	if !said.status.IsSuccess() {
		if !said.status.IsRejected() {
			return nil, said.status.AsError()
		}
		return rejectedByPreFilter(r, said.status), nil
	}
	m := &Matrix{Rows: make([]Row, 0, r.Snapshot.Len())}
	var fit []fwk.NodeInfo
	for _, node := range r.Snapshot.Nodes() {
		row := evaluateNode(ctx, r, said, node)
		if row.Feasible() {
			fit = append(fit, node)
		}
		m.Rows = append(m.Rows, row)
	}
	return m, m.score(ctx, r, fit)
}

func rejectedByPreFilter(r Request, status *fwk.Status) *Matrix {
	m := &Matrix{PreFilterStatus: status}
	refusal := pluginRejection(framework.NodeRejection{Status: status})
	for _, node := range r.Snapshot.Nodes() {
		m.Rows = append(m.Rows, Row{Node: node.Node().Name, Rejections: []PluginRejection{refusal}})
	}
	return m
}

// ask is what is said about one node.
func evaluateNode(ctx context.Context, r Request, said *preFilterResult, node fwk.NodeInfo) Row {
	row := Row{Node: node.Node().Name}
	missing, ok := r.Framework.AllRejections(ctx, r.State, r.Pod, node)
	row.Failed = !ok
	for _, m := range missing {
		refusal := pluginRejection(m)
		at := slices.IndexFunc(row.Rejections, func(known PluginRejection) bool { return known.Plugin == refusal.Plugin })
		if at < 0 {
			row.Rejections = append(row.Rejections, refusal)
		} else {
			row.Rejections[at].Missing = append(row.Rejections[at].Missing, refusal.Missing...)
		}
	}
	if row.Feasible() && !said.nodes.AllNodes() && !said.nodes.NodeNames.Has(row.Node) {
		who := strings.Join(sets.List(said.plugins), " and ")
		row.Rejections = []PluginRejection{{Plugin: who, Code: fwk.UnschedulableAndUnresolvable.String(), Missing: []decision.Missing{
			{Plugin: who, Reason: "is not among the nodes that the pod may go to"},
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

// score gives the rows of nodes that fit their scores.
func (m *Matrix) score(ctx context.Context, r Request, fit []fwk.NodeInfo) error {
	if len(fit) == 0 {
		return nil
	}
	if status := r.Framework.RunPreScorePlugins(ctx, r.State, r.Pod, fit); !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	scores, status := r.Framework.ScoreNodes(ctx, r.State, r.Pod, fit)
	if !status.IsSuccess() {
		return fmt.Errorf("scoring: %w", status.AsError())
	}
	all, next := &referenceScores{fit, scores}, 0
	for i := range m.Rows {
		if m.Rows[i].Feasible() {
			score := all.Score(next)
			m.Rows[i].Score, next = &score, next+1
		}
	}
	return nil
}
