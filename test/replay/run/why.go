package run

import (
	"context"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
)

// Nearest returns the nodes that least kept the pod of the last Attempt, which
// ended in unfit.
func (b *Berth) Nearest(unfit *framework.FitError) []v1alpha1.ClosestNode {
	return cycle.ClosestNodes(context.Background(), b.LastRequest(), unfit, func(_, reason string) string { return reason })
}

// Fewest is the plain twin of Nearest: how many things are missing on the node
// where the fewest are, of all that refused the pod and that the fewest plugins
// exclude.
func (b *Berth) Fewest(unfit *framework.FitError) (fewest int) {
	last, least := b.LastRequest(), math.MaxInt
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(name string, _ *fwk.Status) {
		node := last.Snapshot.Node(name)
		missing, ok := b.Framework().AllRejections(context.Background(), last.State, last.Pod, node)
		n := 0
		for _, m := range missing {
			n += max(1, len(m.InsufficientResources))
		}
		excluded := b.Excluded(name)
		if ok && n > 0 && (excluded < least || excluded == least && n < fewest) {
			least, fewest = excluded, n
		}
	})
	return fewest
}

// Excluded returns how many plugins refuse a node for a reason that stays, in
// the last Attempt, whichever plugin was the first to refuse it.
func (b *Berth) Excluded(node string) int {
	last := b.LastRequest()
	return b.Framework().CountPermanentRejections(last.State, last.Pod, last.Snapshot.Node(node), "")
}

// Node returns a node as it is now; nil when there is none of that name.
func (b *Berth) Node(name string) *v1.Node { return b.now().Node(name).Node() }

// now is the cluster as it is.
func (b *Berth) now() *cache.Snapshot {
	b.Scheduler.UpdateSnapshot()
	return b.LastRequest().Snapshot
}

// Judge asks the plugins about a pod and a node as they are now, but for some of
// the Filter chain.
func (b *Berth) Judge(pod *v1.Pod, node string, but ...string) *fwk.Status {
	snapshot, state := b.now(), framework.NewCycleState()
	_, status, _ := b.Framework().RunPreFilterPlugins(context.Background(), state, pod)
	if !status.IsSuccess() {
		return status
	}
	state.SetSkipFilterPlugins(state.GetSkipFilterPlugins().Union(sets.New(but...)))
	return b.Framework().RunFilterPluginsWithNominatedPods(context.Background(), state, pod, snapshot.Node(node))
}

// FitsWithout says whether a pod would fit on a node that some pods have left.
func (b *Berth) FitsWithout(pod *v1.Pod, node string, leavers []*v1.Pod) bool {
	ctx, snapshot, state := context.Background(), b.now(), framework.NewCycleState()
	if _, status, _ := b.Framework().RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return false
	}
	left := snapshot.Node(node).Snapshot()
	for _, leaver := range leavers {
		info, _ := framework.NewPodInfo(leaver)
		if err := left.RemovePod(klog.Background(), leaver); err != nil {
			return false
		}
		if !b.Framework().RunPreFilterExtensionRemovePod(ctx, state, pod, info, left).IsSuccess() {
			return false
		}
	}
	return b.Framework().RunFilterPluginsWithNominatedPods(ctx, state, pod, left).IsSuccess()
}
