package interpodaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// required is what the pod and the placed pods require of each other, and how
// matters stand.
type required struct {
	// wanted are the pods that satisfy the pod's affinity, nil without any;
	// self says that the pod is one of them. near are their numbers for each
	// of keys.
	wanted *framework.PodSet
	self   bool
	keys   []string
	near   []*framework.Tally
	// anti are the terms of the pod's anti-affinity, against the numbers of
	// the pods that they speak of.
	anti    []term
	against []*framework.Tally
	// guards are the terms by which placed pods keep the pod away; query says
	// which they are.
	guards *framework.TermTallies
	query  framework.TermQuery
}

// Clone returns a copy that pods can be added to and removed from.
func (r *required) Clone() fwk.StateData {
	clone := *r
	clone.near, clone.against = cloned(r.near), cloned(r.against)
	clone.guards = r.guards.Clone()
	return &clone
}

func cloned(tallies []*framework.Tally) []*framework.Tally {
	clones := make([]*framework.Tally, len(tallies))
	for i, tally := range tallies {
		clones[i] = tally.Clone()
	}
	return clones
}

// PreFilter counts the pods that the pod wants near or not near, and those
// that do not want it near. It skips Filter when nobody requires anything.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	terms, err := framework.AffinityTermsOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %+v", err))
	}
	affinity, err := p.resolve(terms.RequiredAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	anti, err := p.resolve(terms.RequiredAntiAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	r := &required{
		wanted: together(affinity), keys: keysOf(affinity), anti: anti,
		query: framework.TermQuery{Pod: pod, Namespace: p.labelsOf(pod.Namespace), RequiredAntiAffinity: 1},
	}
	r.guards = p.counts.Terms(r.query)
	// The form of a class wants to know even when Filter is skipped now.
	state.Write(filterKey, r)
	if !r.guards.Listed() && len(affinity) == 0 && len(anti) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	r.self = r.wanted != nil && r.wanted.Has(pod)
	p.count(r)
	return nil, nil
}

// count asks for the numbers that the pod's own terms need.
func (p *Plugin) count(r *required) {
	var queries []framework.PodQuery
	for _, key := range r.keys {
		queries = append(queries, framework.PodQuery{TopologyKey: key, Pods: r.wanted})
	}
	for _, t := range r.anti {
		queries = append(queries, framework.PodQuery{TopologyKey: t.key, Pods: t.pods})
	}
	if len(queries) == 0 {
		return
	}
	tallies := p.counts.Pods(queries...)
	r.near, r.against = tallies[:len(r.keys)], tallies[len(r.keys):]
}

// PreFilterExtensions returns the plugin, which follows pods that come and go.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod in that is thought of as on node.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return shift(state, added, node.Node(), 1)
}

// RemovePod counts a pod out that is thought of as gone from node.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return shift(state, removed, node.Node(), -1)
}

func shift(state fwk.CycleState, other fwk.PodInfo, node *v1.Node, by int64) *fwk.Status {
	r, err := requiredOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if node == nil {
		return nil
	}
	add := func(tally *framework.Tally, key string) {
		if domain, ok := node.Labels[key]; ok {
			tally.Add(domain, by)
		}
	}
	for key := range r.query.Of(other) {
		if domain, ok := node.Labels[key]; ok {
			r.guards.Add(key, domain, by)
		}
	}
	if r.wanted != nil && r.wanted.Has(other.GetPod()) {
		for i, key := range r.keys {
			add(r.near[i], key)
		}
	}
	for i, t := range r.anti {
		if t.pods.Has(other.GetPod()) {
			add(r.against[i], t.key)
		}
	}
	return nil
}

// Filter refuses a node that is not near the pods that the pod wants, that is
// near one that it does not want, or near one that does not want it.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	r, err := requiredOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	labels := node.Node().Labels
	if !r.nearWanted(labels) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAffinity)
	}
	for i, t := range r.anti {
		if domain, ok := labels[t.key]; ok && r.against[i].Of(domain) > 0 {
			return fwk.NewStatus(fwk.Unschedulable, reasonAnti)
		}
	}
	for key, tally := range r.guards.By {
		if domain, ok := labels[key]; ok && tally.Of(domain) > 0 {
			return fwk.NewStatus(fwk.Unschedulable, reasonExisting)
		}
	}
	return nil
}

// nearWanted reports whether a node with these labels satisfies the affinity.
// The first pod of a group that wants its own kind near would wait for ever, so
// while there is none of the kind anywhere, any node with all the labels will do.
func (r *required) nearWanted(labels map[string]string) bool {
	near, anywhere := true, false
	for i, key := range r.keys {
		domain, ok := labels[key]
		if !ok {
			return false
		}
		near = near && r.near[i].Of(domain) > 0
		anywhere = anywhere || !r.near[i].Zero()
	}
	return near || !anywhere && r.self
}

func requiredOf(state fwk.CycleState) (*required, error) {
	return framework.Noted[*required](state, filterKey, Name, "PreFilter")
}
