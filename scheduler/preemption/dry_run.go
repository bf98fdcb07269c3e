package preemption

import (
	"context"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// dryRun selects victims on one node. It owns state and node.
type dryRun struct {
	request framework.PreemptionRequest
	state   fwk.CycleState
	node    fwk.NodeInfo
	// nodes has the other nodes, on which the pods of a group may be. They do not change.
	nodes fwk.NodeInfoLister
}

// selectVictims returns which of the evictable victims have to leave, the most important
// first. It removes all; if the pod fits then, it adds them back one by one and keeps removed
// those with which the pod does not fit.
func (d *dryRun) selectVictims(ctx context.Context, evictable []*victim, budgets *budgets) (selected []*victim, status *fwk.Status) {
	for _, v := range evictable {
		if err := d.remove(ctx, v); err != nil {
			return nil, fwk.AsStatus(err)
		}
	}
	if status := d.fits(ctx); !status.IsSuccess() {
		return nil, status
	}
	left, mixed, err := reprieve(ctx, evictable, budgets, d.putBack)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if mixed {
		sortByImportance(left)
	}
	return left, nil
}

// reprieve calls putBack for each victim, the most important first, and those that a budget
// protects before the others. It returns the victims that cannot be put back in that order;
// mixed says that there were protected victims and others.
func reprieve(ctx context.Context, evictable []*victim, budgets *budgets, putBack func(context.Context, *victim) (fits bool, err error)) (left []*victim, mixed bool, err error) {
	sortByImportance(evictable)
	protected, free := budgets.split(evictable)
	for _, v := range slices.Concat(protected, free) {
		fits, err := putBack(ctx, v)
		if err != nil {
			return nil, false, err
		}
		if !fits {
			left = append(left, v)
		}
	}
	return left, len(protected) > 0 && len(free) > 0, nil
}

// putBack adds a victim back if the pod still fits then.
func (d *dryRun) putBack(ctx context.Context, v *victim) (fits bool, err error) {
	if err := d.add(ctx, v); err != nil {
		return false, err
	}
	if d.fits(ctx).IsSuccess() {
		return true, nil
	}
	return false, d.remove(ctx, v)
}

func (d *dryRun) fits(ctx context.Context) *fwk.Status {
	return d.request.Handle.RunFilterPluginsWithNominatedPods(ctx, d.state, d.request.Pod, d.node)
}

func (d *dryRun) remove(ctx context.Context, v *victim) error {
	for info := range v.pods() {
		node, onNode, err := d.nodeOf(info)
		if err != nil {
			return err
		}
		if onNode {
			if err := node.RemovePod(klog.FromContext(ctx), info.GetPod()); err != nil {
				return err
			}
		}
		if err := d.request.Handle.RunPreFilterExtensionRemovePod(ctx, d.state, d.request.Pod, info, node).AsError(); err != nil {
			return err
		}
	}
	return nil
}

func (d *dryRun) add(ctx context.Context, v *victim) error {
	for info := range v.pods() {
		node, onNode, err := d.nodeOf(info)
		if err != nil {
			return err
		}
		if onNode {
			node.AddPodInfo(info)
		}
		if err := d.request.Handle.RunPreFilterExtensionAddPod(ctx, d.state, d.request.Pod, info, node).AsError(); err != nil {
			return err
		}
	}
	return nil
}

// nodeOf returns the node of a victim's pod, and whether it is the one that the dry run owns.
func (d *dryRun) nodeOf(info fwk.PodInfo) (node fwk.NodeInfo, owned bool, err error) {
	name := nodeNameOf(info)
	if name == d.node.Node().Name {
		return d.node, true, nil
	}
	node, err = d.nodes.Get(name)
	return node, false, err
}

// nodeNameOf returns the node of a pod that is on one.
func nodeNameOf(info fwk.PodInfo) string {
	if ours, ok := info.(*framework.PodInfo); ok {
		return ours.NodeName()
	}
	return info.GetPod().Spec.NodeName
}
