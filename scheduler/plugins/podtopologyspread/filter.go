package podtopologyspread

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// hard is the pod's hard constraints and how matters stand in their domains.
type preFilterState struct {
	constraints []constraint
	// scopes, tallies and self go with constraints; self is 1 where the pod
	// itself is one of those to be spread.
	scopes       []*framework.Scope
	counts       []*framework.DomainSums
	selfMatchNum []int64
}

// Clone returns a copy that pods can be added to and removed from.
func (h *preFilterState) Clone() fwk.StateData {
	clone := *h
	clone.counts = make([]*framework.DomainSums, len(h.counts))
	for i, tally := range h.counts {
		clone.counts[i] = tally.Clone()
	}
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
	queries := make([]framework.PodQuery, len(constraints))
	for i, c := range constraints {
		queries[i] = framework.PodQuery{TopologyKey: c.topologyKey, Pods: c.podSet(pod), Scope: h.scopes[i], IncludeEmpty: true}
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

// PreFilterExtensions returns the plugin, which follows pods that come and go.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod in that is thought of as on node.
func (p *Plugin) AddPod(_ context.Context, state fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, pod, added.GetPod(), node.Node(), 1)
}

// RemovePod counts a pod out that is thought of as gone from node.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, pod, removed.GetPod(), node.Node(), -1)
}

// shift adds by to what other counts for. Whether other is terminating is not
// asked, and an empty selector counts it: upstream as here, though PreFilter
// sees both otherwise.
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

// Filter refuses a node whose domain the pod would make larger than the
// smallest one by more than maxSkew, and a node that is in no domain.
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

// Excludes reports whether the node is in no domain of a constraint: it has no
// label of that key.
func (p *Plugin) RejectsPermanently(state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) bool {
	h, err := getPreFilterState(state)
	return err == nil && h != nil && slices.ContainsFunc(h.constraints, func(c constraint) bool {
		_, ok := node.Node().Labels[c.topologyKey]
		return !ok
	})
}

// least is the smallest domain of the ith constraint; 0 as long as there are
// fewer domains than there should be.
func (h *preFilterState) minMatchNum(i int) int64 {
	if h.counts[i].ListedDomains() < int(h.constraints[i].minDomains) {
		return 0
	}
	return h.counts[i].Min()
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}
