package balance

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter reports a node on which the pod would fit if one pod were removed. It
// evicts no pod.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	lister := p.handle.SnapshotSharedLister().NodeInfos()
	nodes, err := statuses.NodesForStatusCode(lister, fwk.Unschedulable)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, node := range nodes {
		if !statuses.Get(node.Node().Name).IsRejected() || len(p.handle.NominatedPodsForNode(node.Node().Name)) > 0 {
			continue
		}
		fits, status := p.fitsWithoutOne(ctx, state, pod, node)
		if !status.IsSuccess() {
			return nil, status
		}
		if fits {
			return nil, fwk.NewStatus(fwk.Unschedulable, "one pod less on "+node.Node().Name+" would be enough")
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "one pod less would not be enough")
}

// fitsWithoutOne reports whether pod fits on a copy of node with one pod less.
func (p *Plugin) fitsWithoutOne(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (bool, *fwk.Status) {
	for _, removed := range node.GetPods() {
		copied, clonedState := node.Snapshot(), state.Clone()
		if err := copied.RemovePod(klog.FromContext(ctx), removed.GetPod()); err != nil {
			return false, fwk.AsStatus(err)
		}
		if s := p.handle.RunPreFilterExtensionRemovePod(ctx, clonedState, pod, removed, copied); !s.IsSuccess() {
			return false, s
		}
		fits := p.handle.RunFilterPluginsWithNominatedPods(ctx, clonedState, pod, copied).IsSuccess()
		copied.AddPodInfo(removed)
		if s := p.handle.RunPreFilterExtensionAddPod(ctx, clonedState, pod, removed, copied); !s.IsSuccess() {
			return false, s
		}
		if p.handle.RunFilterPlugins(ctx, clonedState, pod, copied).IsSuccess() {
			return false, fwk.AsStatus(fmt.Errorf("%s fits with all its pods, too", node.Node().Name))
		}
		if fits {
			return true, nil
		}
	}
	return false, nil
}

// Reserve stores the number of pods on the node in the state.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, node string) *fwk.Status {
	c, status := getPreFilterState(state)
	if !status.IsSuccess() {
		return status
	}
	info, err := p.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return fwk.AsStatus(err)
	}
	state.Write(reservedStateKey, &podCounts{map[string]int{node: c.byNode[node], "": len(info.GetPods())}})
	return nil
}

// Unreserve deletes it.
func (*Plugin) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	state.Delete(reservedStateKey)
}

// PreBindPreFlight returns Skip if Reserve stored nothing.
func (*Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if _, err := state.Read(reservedStateKey); err != nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes what Reserve stored to the pod.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := state.Read(reservedStateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	on := data.(*podCounts).byNode
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		PodCountsAnnotation: fmt.Sprintf("%s had %d pods, %d in the snapshot", node, on[node], on[""]),
	}}})
	if err != nil {
		return fwk.AsStatus(err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return fwk.AsStatus(err)
}

// SignPod returns no fragments: the plugin does not distinguish pods.
func (*Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// EventsToRegister registers nodes that may have more pods, and deleted pods.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
	}, nil
}
