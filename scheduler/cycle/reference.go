package cycle

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// preFilterResult is the result of PreFilter for a pod.
type preFilterResult struct {
	nodes   *fwk.PreFilterResult
	status  *fwk.Status
	plugins sets.Set[string]
}

func runPreFilter(ctx context.Context, r Request) *preFilterResult {
	nodes, status, plugins := r.Framework.RunPreFilterPlugins(ctx, r.State, r.Pod)
	return &preFilterResult{nodes, status, plugins}
}

// runReference runs every plugin for every node. It defines the result of a
// scheduling cycle, and schedules the pods for which the equivalence cache
// cannot be used. preFiltered is the result of PreFilter in this attempt, whose data
// the state holds.
func (c *Cycle) runReference(ctx context.Context, r Request, preFiltered *preFilterResult) (*Placement, error) {
	diagnosis := framework.NewDiagnosis()
	feasible, err := c.findNodesThatFitPod(ctx, r, preFiltered, diagnosis)
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

// findNodesThatFitPod returns feasible nodes, as many as
// numFeasibleNodesToFind, and adds the reasons of the others to diagnosis.
func (c *Cycle) findNodesThatFitPod(ctx context.Context, r Request, preFiltered *preFilterResult, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	allowed, status, plugins := preFiltered.nodes, preFiltered.status, preFiltered.plugins
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
		if abandoned := framework.CheckAbandoned(r.State); abandoned != nil {
			return nil, abandoned
		}
	}
	nodes := r.Snapshot.Nodes()
	if !allowed.AllNodes() {
		nodes = namedNodes(r.Snapshot, allowed.NodeNames)
		diagnosis.NarrowedBy = sets.List(plugins)
		// Like kube-scheduler, this names also the plugins that rejected the
		// nominated node just before.
		diagnosis.NodeToStatus.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(diagnosis.UnschedulablePlugins))))
	}
	feasible, err := c.findNodesThatPassFilters(ctx, r, nodes, diagnosis)
	if abandoned := framework.CheckAbandoned(r.State); abandoned != nil {
		return nil, abandoned
	}
	// A failed search advances the start index, too, by the nodes it evaluated.
	processed := len(feasible) + diagnosis.NodeToStatus.Len()
	c.nextStartNodeIndex = (c.nextStartNodeIndex + processed) % r.Snapshot.Len()
	if err != nil {
		return feasible, err
	}
	return findNodesThatPassExtenders(ctx, r, feasible, diagnosis)
}

// evaluateNominatedNode evaluates only the node to which the pod is nominated,
// which is most likely the only one that fits. It returns no node if that one
// does not fit or is gone.
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
	if framework.CheckAbandoned(r.State) != nil {
		return nil
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Filtering the nominated node failed; trying all nodes", "pod", klog.KObj(r.Pod), "node", name)
		return nil
	}
	return feasible
}

// findNodesThatPassFilters evaluates nodes in turn from the start index until
// one more fits than is needed. That node is not returned, but the nodes
// rejected before it are in diagnosis.
func (c *Cycle) findNodesThatPassFilters(ctx context.Context, r Request, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	want := numFeasibleNodesToFind(r.PercentageOfNodesToScore, len(nodes))
	if r.Framework.FirstFeasibleNodeSuffices() && len(nodes) > 0 {
		want = 1
	}
	feasible := make([]fwk.NodeInfo, 0, want)
	if len(r.Framework.FilterChain()) == 0 {
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

// namedNodes returns the existing nodes in the order of their names.
// kube-scheduler's order is that of a map, of which every order is possible.
func namedNodes(snapshot *cache.Snapshot, names sets.Set[string]) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, 0, len(names))
	for _, name := range sets.List(names) {
		if node := snapshot.Node(name); node != nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}
