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
type preFilterState struct {
	// wanted are the pods that satisfy the pod's affinity, nil without any;
	// self says that the pod is one of them. near are their numbers for each
	// of keys.
	affinityPods   *framework.PodSet
	selfMatch      bool
	affinityKeys   []string
	affinityCounts []*framework.DomainSums
	// anti are the terms of the pod's anti-affinity, against the numbers of
	// the pods that they speak of.
	antiAffinityTerms  []term
	antiAffinityCounts []*framework.DomainSums
	// guards are the terms by which placed pods keep the pod away; query says
	// which they are.
	existingAntiAffinityCounts *framework.TermSums
	existingAntiAffinityQuery  framework.TermQuery
}

// Clone returns a copy that pods can be added to and removed from.
func (r *preFilterState) Clone() fwk.StateData {
	clone := *r
	clone.affinityCounts, clone.antiAffinityCounts = cloneAll(r.affinityCounts), cloneAll(r.antiAffinityCounts)
	clone.existingAntiAffinityCounts = r.existingAntiAffinityCounts.Clone()
	return &clone
}

func cloneAll(tallies []*framework.DomainSums) []*framework.DomainSums {
	clones := make([]*framework.DomainSums, len(tallies))
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
	affinity, err := p.resolveNamespaces(terms.RequiredAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	anti, err := p.resolveNamespaces(terms.RequiredAntiAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	r := &preFilterState{
		affinityPods: podsMatchingAll(affinity), affinityKeys: topologyKeys(affinity), antiAffinityTerms: anti,
		existingAntiAffinityQuery: framework.TermQuery{Pod: pod, Namespace: p.namespaceLabels(pod.Namespace), RequiredAntiAffinity: 1},
	}
	r.existingAntiAffinityCounts = p.counts.Terms(r.existingAntiAffinityQuery)
	// The form of a class wants to know even when Filter is skipped now.
	state.Write(preFilterStateKey, r)
	if !r.existingAntiAffinityCounts.HasListed() && len(affinity) == 0 && len(anti) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	r.selfMatch = r.affinityPods != nil && r.affinityPods.Has(pod)
	p.countPodsOfTerms(r)
	return nil, nil
}

// count asks for the numbers that the pod's own terms need.
func (p *Plugin) countPodsOfTerms(r *preFilterState) {
	var queries []framework.PodQuery
	for _, key := range r.affinityKeys {
		queries = append(queries, framework.PodQuery{TopologyKey: key, Pods: r.affinityPods})
	}
	for _, t := range r.antiAffinityTerms {
		queries = append(queries, framework.PodQuery{TopologyKey: t.topologyKey, Pods: t.pods})
	}
	if len(queries) == 0 {
		return
	}
	tallies := p.counts.Pods(queries...)
	r.affinityCounts, r.antiAffinityCounts = tallies[:len(r.affinityKeys)], tallies[len(r.affinityKeys):]
}

// PreFilterExtensions returns the plugin, which follows pods that come and go.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod in that is thought of as on node.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, added, node.Node(), 1)
}

// RemovePod counts a pod out that is thought of as gone from node.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, removed, node.Node(), -1)
}

func updateWithPod(state fwk.CycleState, other fwk.PodInfo, node *v1.Node, by int64) *fwk.Status {
	r, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if node == nil {
		return nil
	}
	add := func(tally *framework.DomainSums, key string) {
		if domain, ok := node.Labels[key]; ok {
			tally.Add(domain, by)
		}
	}
	for key := range r.existingAntiAffinityQuery.MatchingTerms(other) {
		if domain, ok := node.Labels[key]; ok {
			r.existingAntiAffinityCounts.Add(key, domain, by)
		}
	}
	if r.affinityPods != nil && r.affinityPods.Has(other.GetPod()) {
		for i, key := range r.affinityKeys {
			add(r.affinityCounts[i], key)
		}
	}
	for i, t := range r.antiAffinityTerms {
		if t.pods.Has(other.GetPod()) {
			add(r.antiAffinityCounts[i], t.topologyKey)
		}
	}
	return nil
}

// Filter refuses a node that is not near the pods that the pod wants, that is
// near one that it does not want, or near one that does not want it.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	r, err := getPreFilterState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	labels := node.Node().Labels
	if !r.satisfiesPodAffinity(labels) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonAffinity)
	}
	for i, t := range r.antiAffinityTerms {
		if domain, ok := labels[t.topologyKey]; ok && r.antiAffinityCounts[i].Get(domain) > 0 {
			return fwk.NewStatus(fwk.Unschedulable, reasonAntiAffinity)
		}
	}
	for key, tally := range r.existingAntiAffinityCounts.ByTopologyKey {
		if domain, ok := labels[key]; ok && tally.Get(domain) > 0 {
			return fwk.NewStatus(fwk.Unschedulable, reasonExistingAntiAffinity)
		}
	}
	return nil
}

// nearWanted reports whether a node with these labels satisfies the affinity.
// The first pod of a group that wants its own kind near would wait for ever, so
// while there is none of the kind anywhere, any node with all the labels will do.
func (r *preFilterState) satisfiesPodAffinity(labels map[string]string) bool {
	near, anywhere := true, false
	for i, key := range r.affinityKeys {
		domain, ok := labels[key]
		if !ok {
			return false
		}
		near = near && r.affinityCounts[i].Get(domain) > 0
		anywhere = anywhere || !r.affinityCounts[i].AllZero()
	}
	return near || !anywhere && r.selfMatch
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}
