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

// PostFilter says on which node one pod less would be enough, and asks nobody to
// leave.
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

// fitsWithoutOne tries pod on a copy of node that has one pod less.
func (p *Plugin) fitsWithoutOne(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (bool, *fwk.Status) {
	for _, goes := range node.GetPods() {
		there, then := node.Snapshot(), state.Clone()
		if err := there.RemovePod(klog.FromContext(ctx), goes.GetPod()); err != nil {
			return false, fwk.AsStatus(err)
		}
		if s := p.handle.RunPreFilterExtensionRemovePod(ctx, then, pod, goes, there); !s.IsSuccess() {
			return false, s
		}
		fits := p.handle.RunFilterPluginsWithNominatedPods(ctx, then, pod, there).IsSuccess()
		there.AddPodInfo(goes)
		if s := p.handle.RunPreFilterExtensionAddPod(ctx, then, pod, goes, there); !s.IsSuccess() {
			return false, s
		}
		if p.handle.RunFilterPlugins(ctx, then, pod, there).IsSuccess() {
			return false, fwk.AsStatus(fmt.Errorf("%s fits with all pods there, too", node.Node().Name))
		}
		if fits {
			return true, nil
		}
	}
	return false, nil
}

// Reserve notes what the attempt knew of the node.
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

// Unreserve forgets it.
func (*Plugin) Unreserve(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	state.Delete(reservedStateKey)
}

// PreBindPreFlight says that there is something to do.
func (*Plugin) PreBindPreFlight(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if _, err := state.Read(reservedStateKey); err != nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return &fwk.PreBindPreFlightResult{AllowParallel: true}, nil
}

// PreBind writes what Reserve noted on the pod.
func (p *Plugin) PreBind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	data, err := state.Read(reservedStateKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	on := data.(*podCounts).byNode
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		PodCountsAnnotation: fmt.Sprintf("%s had %d, of which %d are seen", node, on[node], on[""]),
	}}})
	if err != nil {
		return fwk.AsStatus(err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return fwk.AsStatus(err)
}

// SignPod says that the plugin can tell no two pods apart.
func (*Plugin) SignPod(context.Context, *v1.Pod) ([]fwk.SignFragment, *fwk.Status) { return nil, nil }

// EventsToRegister are nodes that may have more pods, and pods that go.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeLabel}},
		{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}},
	}, nil
}
