package podtopologyspread

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// preFilterState holds the pod's hard constraints and the counts of their domains.
type preFilterState struct {
	constraints []constraint
	// scopes, counts and selfMatchNum have an entry for each constraint; selfMatchNum
	// is 1 where the constraint selects the pod itself.
	scopes       []*counts.Scope
	counts       []*counts.DomainSums
	selfMatchNum []int64
}

// Clone returns a copy whose counts AddPod and RemovePod can change.
func (h *preFilterState) Clone() fwk.StateData { return h.cloneBy((*counts.DomainSums).Clone) }

// Detached returns a clone that stays valid when the snapshot changes.
func (h *preFilterState) Detached() fwk.StateData { return h.cloneBy((*counts.DomainSums).Detached) }

func (h *preFilterState) cloneBy(cloneSums func(*counts.DomainSums) *counts.DomainSums) *preFilterState {
	clone := *h
	clone.counts = counts.CloneAll(h.counts, cloneSums)
	return &clone
}

// PreFilter counts the pods by domain. It skips Filter for a pod without hard
// constraints.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	if len(constraints) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	h := &preFilterState{constraints: constraints, scopes: scopesOf(pod, constraints, topologyKeys(constraints))}
	queries := make([]counts.PodQuery, len(constraints))
	for i, c := range constraints {
		queries[i] = counts.PodQuery{TopologyKey: c.topologyKey, Pods: c.podSet(pod), Scope: h.scopes[i], IncludeEmpty: true}
		self := int64(0)
		if c.selector.Matches(labels.Set(pod.Labels)) {
			self = 1
		}
		h.selfMatchNum = append(h.selfMatchNum, self)
	}
	h.counts = p.counts.Pods(queries...)
	state.Write(preFilterStateKey, h)
	return nil, nil
}

// PreFilterExtensions returns the plugin, which updates the counts.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod that is assumed to be on node.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, pod, added.GetPod(), node.Node(), 1)
}

// RemovePod stops counting a pod that is assumed to be removed from node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, pod, removed.GetPod(), node.Node(), -1)
}

// updateWithPod adds by to the counts of the constraints that select other. As
// upstream, it counts a terminating pod and counts other for an empty selector,
// although PreFilter does neither.
func updateWithPod(state fwk.CycleState, pod, other *v1.Pod, node *v1.Node, by int64) *fwk.Status {
	h, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if node == nil || other.Namespace != pod.Namespace {
		return nil
	}
	for i, c := range h.constraints {
		if c.selector.Matches(labels.Set(other.Labels)) && h.scopes[i].Includes(node) {
			h.counts[i].Add(node.Labels[c.topologyKey], by)
		}
	}
	return nil
}

// Filter rejects a node whose domain would, with the pod, have more than maxSkew pods
// above the smallest domain, and a node without the label of a constraint.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	h, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	for i, c := range h.constraints {
		domain, ok := node.Node().Labels[c.topologyKey]
		if !ok {
			return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonLabel)
		}
		if h.counts[i].Get(domain)+h.selfMatchNum[i]-h.minMatchNum(i) > int64(c.maxSkew) {
			return fwk.NewStatus(fwk.Unschedulable, reasonSkew)
		}
	}
	return nil
}

// RejectsPermanently reports whether the node has no label of a constraint's key.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) bool {
	h, err := getPreFilterState(state)
	return err == nil && h != nil && slices.ContainsFunc(h.constraints, func(c constraint) bool {
		_, ok := node.Node().Labels[c.topologyKey]
		return !ok
	})
}

// minMatchNum returns the count of the smallest domain of the ith constraint; 0 while
// there are fewer than minDomains domains.
func (h *preFilterState) minMatchNum(i int) int64 {
	if h.counts[i].ListedDomains() < int(h.constraints[i].minDomains) {
		return 0
	}
	return h.counts[i].Min()
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}
