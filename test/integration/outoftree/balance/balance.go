// Package balance prefers nodes with few pods, limits the number of pods of a node, and
// reports which node would fit with one pod less. It is written for kube-scheduler 1.37
// and uses the published contract: state from PreFilter to PreBind,
// PreFilterExtensions, and the methods of Handle.
package balance

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// Name is the name of the plugin.
	Name = "Balance"
	// MaxPodsLabel is the label of a node with the largest number of pods that it may
	// have.
	MaxPodsLabel = "balance.example.com/most"
	// PodCountsAnnotation is the annotation that PreBind writes to a pod: the number of
	// pods on its node in PreFilter, in Filter with a copy of the state, and in
	// Reserve.
	PodCountsAnnotation = "balance.example.com/chosen"
)

// Plugin is an instance of the plugin.
type Plugin struct{ handle fwk.Handle }

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ScoreExtensions     = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.PreBindPlugin       = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
)

// New builds the plugin. It is a factory as kube-scheduler registers them.
func New(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	if handle.SharedInformerFactory() == nil || handle.ClientSet() == nil {
		return nil, fmt.Errorf("the handle has no informers or no client")
	}
	return &Plugin{handle}, nil
}

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

const (
	preFilterStateKey fwk.StateKey = Name + "/pods"
	preScoreStateKey  fwk.StateKey = Name + "/score"
	reservedStateKey  fwk.StateKey = Name + "/went"
)

// podCounts is the number of pods of each node.
type podCounts struct{ byNode map[string]int }

// Clone returns a copy: changes to a cloned state do not change the original.
func (c *podCounts) Clone() fwk.StateData {
	on := make(map[string]int, len(c.byNode))
	for node, pods := range c.byNode {
		on[node] = pods
	}
	return &podCounts{on}
}

func getPreFilterState(state fwk.CycleState) (*podCounts, *fwk.Status) {
	data, err := state.Read(preFilterStateKey)
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("reading %s: %w", preFilterStateKey, err))
	}
	return data.(*podCounts), nil
}

// PreFilter counts the pods of each node.
func (*Plugin) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c := &podCounts{map[string]int{}}
	for _, node := range nodes {
		c.byNode[node.Node().Name] = len(node.GetPods())
	}
	state.Write(preFilterStateKey, c)
	return nil, nil
}

// PreFilterExtensions returns the plugin, which updates the counts.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts one more pod.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	c, status := getPreFilterState(state)
	if status.IsSuccess() {
		c.byNode[node.Node().Name]++
	}
	return status
}

// RemovePod counts one pod less.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	c, status := getPreFilterState(state)
	if status.IsSuccess() {
		c.byNode[node.Node().Name]--
	}
	return status
}

// Filter rejects a node that has as many pods as its label allows.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, status := getPreFilterState(state)
	if !status.IsSuccess() {
		return status
	}
	var most int
	if _, err := fmt.Sscan(node.Node().Labels[MaxPodsLabel], &most); err == nil && c.byNode[node.Node().Name] >= most {
		return fwk.NewStatus(fwk.Unschedulable, "node(s) had as many pods as they may")
	}
	return nil
}

// PreScore counts the pods of all nodes in parallel.
func (p *Plugin) PreScore(ctx context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	scores := make([]int, len(nodes))
	var seen atomic.Int64
	p.handle.Parallelizer().Until(ctx, len(nodes), func(i int) {
		scores[i] = len(nodes[i].GetPods())
		seen.Add(1)
	}, Name)
	if int(seen.Load()) != len(nodes) {
		return fwk.AsStatus(fmt.Errorf("%d of %d nodes were evaluated", seen.Load(), len(nodes)))
	}
	on := map[string]int{}
	for i, node := range nodes {
		on[node.Node().Name] = scores[i]
	}
	state.Write(preScoreStateKey, &podCounts{on})
	return nil
}

// Score is the number of pods; NormalizeScore reverses it.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := state.Read(preScoreStateKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return int64(data.(*podCounts).byNode[node.Node().Name]), nil
}

// ScoreExtensions returns the plugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives the highest score to the node with the fewest pods.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var most int64
	for _, s := range scores {
		most = max(most, s.Score)
	}
	for i := range scores {
		if scores[i].Score = fwk.MaxNodeScore - scores[i].Score*fwk.MaxNodeScore/max(most, 1); most == 0 {
			scores[i].Score = fwk.MaxNodeScore
		}
	}
	return nil
}

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
