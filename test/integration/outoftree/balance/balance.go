// Package balance prefers nodes with few pods, limits the number of pods of a node, and
// reports which node would fit with one pod less. It is written for kube-scheduler 1.37
// and uses the published contract: state from PreFilter to PreBind,
// PreFilterExtensions, and the methods of Handle.
package balance

import (
	"context"
	"fmt"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
