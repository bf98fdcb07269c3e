package cycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// preFiltered is what PreFilter said to a pod.
type preFilterResult struct {
	nodes   *fwk.PreFilterResult
	status  *fwk.Status
	plugins sets.Set[string]
}

func runPreFilter(ctx context.Context, r Request) *preFilterResult {
	nodes, status, plugins := r.Framework.RunPreFilterPlugins(ctx, r.State, r.Pod)
	return &preFilterResult{nodes, status, plugins}
}

// plain asks every plugin about every node: it is what a decision is defined
// by, and the way of pods that nothing can be remembered of. said is what
// PreFilter has said in this attempt, with its notes in the state.
func (c *Cycle) runReference(ctx context.Context, r Request, said *preFilterResult) (*Placement, error) {
	diagnosis := framework.NewDiagnosis()
	feasible, err := c.findNodesThatFitPod(ctx, r, said, diagnosis)
	if err != nil {
		return nil, err
	}
	evaluated := len(feasible) + diagnosis.NodeToStatus.Len()
	switch len(feasible) {
	case 0:
		return nil, &framework.FitError{NumAllNodes: r.Snapshot.Len(), Diagnosis: diagnosis}
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
	addExtenderScores(ctx, r, feasible, scores)
	winner := selectHost(scores.Total)
	return &Placement{
		Node:      feasible[winner].Node().Name,
		Evaluated: evaluated,
		Feasible:  len(feasible),
		Winner:    winner,
		scores:    &referenceScores{feasible, scores},
	}, nil
}

// fits returns the nodes that the pod fits, as many as the sample asks for,
// and notes in diagnosis why it does not fit others.
func (c *Cycle) findNodesThatFitPod(ctx context.Context, r Request, said *preFilterResult, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	narrowed, status, plugins := said.nodes, said.status, said.plugins
	if !status.IsSuccess() {
		if !status.IsRejected() {
			return nil, status.AsError()
		}
		diagnosis.NodeToStatus.SetAbsentNodesStatus(status)
		diagnosis.NarrowedBy = sets.List(plugins)
		diagnosis.PreFilterMsg = status.Message()
		diagnosis.UnschedulablePlugins = diagnosis.UnschedulablePlugins.Union(plugins)
		diagnosis.AddPluginStatus(status)
		return nil, nil
	}
	diagnosis.UnschedulablePlugins = diagnosis.UnschedulablePlugins.Union(plugins)
	if r.Pod.Status.NominatedNodeName != "" {
		if feasible := c.evaluateNominatedNode(ctx, r, diagnosis); len(feasible) > 0 {
			return feasible, nil
		}
	}
	nodes := r.Snapshot.Nodes()
	if !narrowed.AllNodes() {
		nodes = namedNodes(r.Snapshot, narrowed.NodeNames)
		diagnosis.NarrowedBy = sets.List(plugins)
		// Upstream names with those that narrowed the search down the plugins
		// that just refused the nominated node.
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(diagnosis.UnschedulablePlugins))))
	}
	feasible, err := c.findNodesThatPassFilters(ctx, r, nodes, diagnosis)
	// A failed walk moves the start as well: the nodes it saw had their turn.
	processed := len(feasible) + diagnosis.NodeToStatus.Len()
	if !fault.RotationNotAdvanced {
		c.nextStartNodeIndex = (c.nextStartNodeIndex + processed) % r.Snapshot.Len()
	}
	if err != nil {
		return feasible, err
	}
	return findNodesThatPassExtenders(ctx, r, feasible, diagnosis)
}

// nominated tries the node that has room promised for the pod. It is most
// likely the only one that fits.
func (c *Cycle) evaluateNominatedNode(ctx context.Context, r Request, diagnosis *framework.Diagnosis) []fwk.NodeInfo {
	name := r.Pod.Status.NominatedNodeName
	node := r.Snapshot.Node(name)
	if node == nil {
		klog.FromContext(ctx).V(2).Info("The nominated node is gone", "pod", klog.KObj(r.Pod), "node", name)
		return nil
	}
	feasible, err := c.findNodesThatPassFilters(ctx, r, []fwk.NodeInfo{node}, diagnosis)
	if err == nil {
		feasible, err = findNodesThatPassExtenders(ctx, r, feasible, diagnosis)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Filtering the nominated node failed; trying all nodes", "pod", klog.KObj(r.Pod), "node", name)
		return nil
	}
	return feasible
}

// walk asks nodes in turn, from the start index round, until one more fits
// than the sample needs: that one is not taken, but those refused before it
// were seen.
func (c *Cycle) findNodesThatPassFilters(ctx context.Context, r Request, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	want := numFeasibleNodesToFind(r.PercentageOfNodesToScore, len(nodes))
	if r.Framework.FirstFeasibleNodeSuffices() && len(nodes) > 0 {
		want = 1
	}
	feasible := make([]fwk.NodeInfo, 0, want)
	if !r.Framework.HasFilterPlugins() {
		for i := range want {
			feasible = append(feasible, nodes[(c.nextStartNodeIndex+i)%len(nodes)])
		}
		return feasible, nil
	}
	code := fwk.Success
	begin := r.Framework.Clock.Now()
	defer func() { r.Framework.ObservePoint(ctx, r.State, "Filter", begin, code) }()
	for i := range nodes {
		node := nodes[(c.nextStartNodeIndex+i)%len(nodes)]
		status := r.Framework.RunFilterPluginsWithNominatedPods(ctx, r.State, r.Pod, node)
		switch {
		case status.IsSuccess():
			if len(feasible) == want {
				return feasible, nil
			}
			feasible = append(feasible, node)
			if fault.KForKPlusOne && len(feasible) == want {
				return feasible, nil
			}
		case status.IsError():
			code = fwk.Error
			return feasible, status.AsError()
		default:
			diagnosis.NodeToStatus.Set(node.Node().Name, status)
			diagnosis.AddPluginStatus(status)
		}
	}
	return feasible, nil
}

// only returns the named nodes that exist, in the order of their names.
// Upstream's order is that of a map; any is one of its possible ones.
func namedNodes(snapshot *cache.Snapshot, names sets.Set[string]) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range sets.List(names) {
		if node := snapshot.Node(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
