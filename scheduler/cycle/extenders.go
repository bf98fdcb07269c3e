package cycle

import (
	"context"

	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
)

// findNodesThatPassExtenders calls Filter of one extender after the other, each
// with the nodes that are left, and returns the nodes that pass all. The error
// is that of an extender that is not ignorable.
func findNodesThatPassExtenders(ctx context.Context, r Request, nodes []fwk.NodeInfo, diagnosis *framework.Diagnosis) ([]fwk.NodeInfo, error) {
	for _, e := range r.Framework.Extenders() {
		if len(nodes) == 0 {
			break
		}
		if !e.IsFilter() || !e.IsInterested(r.Pod) {
			continue
		}
		fit, failed, unresolvable, err := e.Filter(r.Pod, nodes)
		if err != nil {
			if e.IsIgnorable() {
				klog.FromContext(ctx).V(2).Info("Ignoring an extender that failed", "pod", klog.KObj(r.Pod), "extender", e.Name(), "err", err.Error())
				continue
			}
			return nil, err
		}
		plugin := framework.ExtenderPluginName(e.Name())
		recordExtenderRejections(diagnosis, nodes, unresolvable, func(reason string) *fwk.Status {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason).WithPlugin(plugin)
		})
		for name := range unresolvable {
			delete(failed, name) // unresolvable takes precedence
		}
		recordExtenderRejections(diagnosis, nodes, failed, func(reason string) *fwk.Status { return fwk.NewStatus(fwk.Unschedulable, reason).WithPlugin(plugin) })
		if len(fit) != len(nodes) {
			diagnosis.UnschedulablePlugins.Insert(plugin)
		}
		nodes = fit
	}
	return nodes, nil
}

// recordExtenderRejections sets the statuses of rejected nodes. Nodes with the
// same reason share one.
func recordExtenderRejections(diagnosis *framework.Diagnosis, nodes []fwk.NodeInfo, reasons extenderv1.FailedNodesMap, status func(reason string) *fwk.Status) {
	known := map[string]*fwk.Status{}
	for _, node := range nodes {
		reason, rejected := reasons[node.Node().Name]
		if !rejected {
			continue
		}
		if known[reason] == nil {
			known[reason] = status(reason)
		}
		diagnosis.NodeToStatus.Set(node.Node().Name, known[reason])
	}
}

// addExtenderScores adds the extenders' weighted scores. As in kube-scheduler,
// an extender that fails is left out whatever its failure policy. Extenders are
// called one after the other; the sums do not depend on the order.
func addExtenderScores(ctx context.Context, r Request, nodes []fwk.NodeInfo, scores *framework.Scores) {
	for _, e := range r.Framework.Extenders() {
		if !e.IsPrioritizer() || !e.IsInterested(r.Pod) {
			continue
		}
		list, weight, err := e.Prioritize(r.Pod, nodes)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Ignoring the scores of an extender that failed", "pod", klog.KObj(r.Pod), "extender", e.Name(), "err", err.Error())
			continue
		}
		scoreByNode := make(map[string]int64, len(*list))
		for _, host := range *list {
			scoreByNode[host.Host] += host.Score * weight * extender.Scale
		}
		row := make(fwk.NodeScoreList, len(nodes))
		for i, node := range nodes {
			row[i] = fwk.NodeScore{Name: node.Node().Name, Score: scoreByNode[node.Node().Name]}
		}
		scores.AddPluginScores(framework.ExtenderPluginName(e.Name()), row)
	}
}
