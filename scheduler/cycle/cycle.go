// Package cycle is one attempt to place one pod: filter, score, pick. It
// computes a Placement or an error and changes nothing but the start index.
package cycle

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
)

// ErrNoNodes says that the cluster has no nodes at all. It names no plugin, so
// that the pod is tried again after a backoff.
var ErrNoNodes = errors.New("no nodes available to schedule pods")

// Cycle holds what one attempt leaves to the next: where in the list of nodes
// the next walk starts. One value serves all profiles and survives swaps.
type Cycle struct {
	start int
}

// Request is what one attempt is about.
type Request struct {
	Framework *framework.Framework
	// PercentageOfNodesToScore is the profile's; 0 means the adaptive rule.
	PercentageOfNodesToScore int32
	Pod                      *v1.Pod
	Snapshot                 *cache.Snapshot
	State                    fwk.CycleState
}

// Placement is where a pod goes, and how that came about.
type Placement struct {
	Node string
	// Evaluated is how many nodes were asked, Feasible how many of them fit.
	Evaluated, Feasible int
	// Nodes are the nodes that were scored, Scores their scores; both are nil
	// when one node alone fitted, since nothing was scored then.
	Nodes  []fwk.NodeInfo
	Scores *framework.Scores
	// Winner is Node's index in Nodes.
	Winner int
}

// Score is the record of the i-th node that was scored.
func (p *Placement) Score(i int) decision.NodeScore {
	score := decision.NodeScore{
		Node: p.Nodes[i].Node().Name, Score: p.Scores.Total[i],
		Plugins: make(map[string]int64, len(p.Scores.Plugins)),
	}
	for row, plugin := range p.Scores.Plugins {
		score.Plugins[plugin] = p.Scores.Weighted[row][i].Score
	}
	return score
}

// Run looks for the best node. The error is a *framework.FitError when the pod
// fits nowhere, ErrNoNodes, or what went wrong.
func (c *Cycle) Run(ctx context.Context, r Request) (*Placement, error) {
	if r.Snapshot.Len() == 0 {
		return nil, ErrNoNodes
	}
	diagnosis := framework.NewDiagnosis()
	feasible, err := c.fits(ctx, r, diagnosis)
	if err != nil {
		return nil, err
	}
	evaluated := len(feasible) + diagnosis.Refusals.Len()
	switch len(feasible) {
	case 0:
		return nil, &framework.FitError{Nodes: r.Snapshot.Len(), Diagnosis: diagnosis}
	case 1:
		return &Placement{Node: feasible[0].Node().Name, Evaluated: evaluated, Feasible: 1}, nil
	}
	if status := r.Framework.RunPreScorePlugins(ctx, r.State, r.Pod, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores, status := r.Framework.ScoreNodes(ctx, r.State, r.Pod, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	winner := best(scores.Total)
	return &Placement{
		Node:      feasible[winner].Node().Name,
		Evaluated: evaluated,
		Feasible:  len(feasible),
		Nodes:     feasible,
		Scores:    scores,
		Winner:    winner,
	}, nil
}

// fits returns the nodes that the pod fits, as many as the sample asks for,
// and notes in diagnosis why it does not fit others.
func (c *Cycle) fits(ctx context.Context, r Request, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	narrowed, status, plugins := r.Framework.RunPreFilterPlugins(ctx, r.State, r.Pod)
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		diagnosis.Refusals.SetAbsent(status)
		diagnosis.PreFilterMessage = status.Message()
		diagnosis.Unschedulable = diagnosis.Unschedulable.Union(plugins)
		diagnosis.Blame(status)
		return nil, nil
	}
	diagnosis.Unschedulable = diagnosis.Unschedulable.Union(plugins)
	if r.Pod.Status.NominatedNodeName != "" {
		if feasible := c.nominated(ctx, r, diagnosis); len(feasible) > 0 {
			return feasible, nil
		}
	}
	nodes := r.Snapshot.Nodes()
	if !narrowed.AllNodes() {
		nodes = only(r.Snapshot, narrowed.NodeNames)
		// Upstream names with those that narrowed the search down the plugins
		// that just refused the nominated node.
		diagnosis.Refusals.SetAbsent(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(diagnosis.Unschedulable))))
	}
	feasible, err := c.walk(ctx, r, nodes, diagnosis)
	// A failed walk moves the start as well: the nodes it saw had their turn.
	processed := len(feasible) + diagnosis.Refusals.Len()
	c.start = (c.start + processed) % r.Snapshot.Len()
	return feasible, err
}

// nominated tries the node that has room promised for the pod. It is most
// likely the only one that fits.
func (c *Cycle) nominated(ctx context.Context, r Request, diagnosis *framework.Diagnosis) []fwk.NodeInfo {
	name := r.Pod.Status.NominatedNodeName
	node := r.Snapshot.Node(name)
	if node == nil {
		klog.FromContext(ctx).V(2).Info("The nominated node is gone", "pod", klog.KObj(r.Pod), "node", name)
		return nil
	}
	feasible, err := c.walk(ctx, r, []fwk.NodeInfo{node}, diagnosis)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Filtering the nominated node failed; trying all nodes", "pod", klog.KObj(r.Pod), "node", name)
		return nil
	}
	return feasible
}

// walk asks nodes in turn, from the start index round, until one more fits
// than the sample needs: that one is not taken, but those refused before it
// were seen.
func (c *Cycle) walk(ctx context.Context, r Request, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	want := sample(r.PercentageOfNodesToScore, len(nodes))
	if !r.Framework.HasScorePlugins() && len(nodes) > 0 {
		want = 1
	}
	feasible := make([]fwk.NodeInfo, 0, want)
	if !r.Framework.HasFilterPlugins() {
		for i := range want {
			feasible = append(feasible, nodes[(c.start+i)%len(nodes)])
		}
		return feasible, nil
	}
	code := fwk.Success
	begin := r.Framework.Clock.Now()
	defer func() { r.Framework.ObservePoint("Filter", begin, code) }()
	for i := range nodes {
		node := nodes[(c.start+i)%len(nodes)]
		status := r.Framework.RunFilterPluginsWithNominatedPods(ctx, r.State, r.Pod, node)
		switch {
		case status.IsSuccess():
			if len(feasible) == want {
				return feasible, nil
			}
			feasible = append(feasible, node)
		case status.IsError():
			code = fwk.Error
			return feasible, status.AsError()
		default:
			diagnosis.Refusals.Add(node.Node().Name, status)
			diagnosis.Blame(status)
		}
	}
	return feasible, nil
}

// only returns the named nodes that exist, in the order of their names.
// Upstream's order is that of a map; any is one of its possible ones.
func only(snapshot *cache.Snapshot, names sets.Set[string]) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range sets.List(names) {
		if node := snapshot.Node(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
