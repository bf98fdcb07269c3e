package interpodaffinity

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// preFilterState holds the required terms of the pod and of the placed pods, with the
// counts of the pods that match them.
type preFilterState struct {
	// affinityPods are the pods that satisfy the pod's required affinity; nil when it
	// has none. selfMatch is true when the pod is one of them. affinityCounts are their
	// numbers by domain, one entry for each topology key in affinityKeys.
	affinityPods   *counts.PodSet
	selfMatch      bool
	affinityKeys   []string
	affinityCounts []*counts.DomainSums
	// antiAffinityTerms are the pod's required anti-affinity terms; antiAffinityCounts
	// are the numbers by domain of the pods that they select, in the same order.
	antiAffinityTerms  []term
	antiAffinityCounts []*counts.DomainSums
	// existingAntiAffinityCounts counts by domain the required anti-affinity terms of
	// placed pods that select the pod. existingAntiAffinityQuery defines those terms.
	existingAntiAffinityCounts *counts.TermSums
	existingAntiAffinityQuery  counts.TermQuery
}

// Clone returns a copy whose counts AddPod and RemovePod can change.
func (r *preFilterState) Clone() fwk.StateData { return r.cloneBy((*counts.DomainSums).Clone) }

// Detached returns a clone that stays valid when the snapshot changes.
func (r *preFilterState) Detached() fwk.StateData { return r.cloneBy((*counts.DomainSums).Detached) }

func (r *preFilterState) cloneBy(cloneSums func(*counts.DomainSums) *counts.DomainSums) *preFilterState {
	clone := *r
	clone.affinityCounts, clone.antiAffinityCounts = counts.CloneAll(r.affinityCounts, cloneSums), counts.CloneAll(r.antiAffinityCounts, cloneSums)
	clone.existingAntiAffinityCounts = r.existingAntiAffinityCounts.CloneBy(cloneSums)
	return &clone
}

// PreFilter counts the pods that the pod's required terms select, and the required
// anti-affinity terms of placed pods that select the pod. It skips Filter when there
// are no such terms.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	terms, err := framework.AffinityTermsOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("parsing pod: %+v", err))
	}
	affinity, err := p.resolveNamespaces(terms.RequiredAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	antiAffinity, err := p.resolveNamespaces(terms.RequiredAntiAffinity)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	r := &preFilterState{
		affinityPods: podsMatchingAll(affinity), affinityKeys: topologyKeys(affinity), antiAffinityTerms: antiAffinity,
		existingAntiAffinityQuery: counts.TermQuery{Pod: pod, Namespace: p.namespaceLabels(pod.Namespace), RequiredAntiAffinity: 1},
	}
	r.existingAntiAffinityCounts = p.counts.Terms(r.existingAntiAffinityQuery)
	// BatchFilter reads the state even if Filter is skipped now.
	state.Write(preFilterStateKey, r)
	if !r.existingAntiAffinityCounts.HasListed() && len(affinity) == 0 && len(antiAffinity) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	r.selfMatch = r.affinityPods != nil && r.affinityPods.Has(pod)
	p.countPodsOfTerms(r)
	return nil, nil
}

// countPodsOfTerms counts the pods that the pod's own required terms select.
func (p *Plugin) countPodsOfTerms(r *preFilterState) {
	var queries []counts.PodQuery
	for _, key := range r.affinityKeys {
		queries = append(queries, counts.PodQuery{TopologyKey: key, Pods: r.affinityPods})
	}
	for _, t := range r.antiAffinityTerms {
		queries = append(queries, counts.PodQuery{TopologyKey: t.topologyKey, Pods: t.pods})
	}
	if len(queries) == 0 {
		return
	}
	sums := p.counts.Pods(queries...)
	r.affinityCounts, r.antiAffinityCounts = sums[:len(r.affinityKeys)], sums[len(r.affinityKeys):]
}

// PreFilterExtensions returns the plugin, which updates the counts.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod counts a pod that is assumed to be on node.
func (*Plugin) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return updateWithPod(state, added, node.Node(), 1)
}

// RemovePod stops counting a pod that is assumed to be removed from node.
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
	add := func(sum *counts.DomainSums, key string) {
		if domain, ok := node.Labels[key]; ok {
			sum.Add(domain, by)
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

// Filter rejects a node whose domains do not satisfy the pod's required affinity, its
// required anti-affinity, or the required anti-affinity of placed pods.
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
	for key, sum := range r.existingAntiAffinityCounts.ByTopologyKey {
		if domain, ok := labels[key]; ok && sum.Get(domain) > 0 {
			return fwk.NewStatus(fwk.Unschedulable, reasonExistingAntiAffinity)
		}
	}
	return nil
}

// satisfiesPodAffinity reports whether a node with these labels satisfies the pod's
// required affinity. The first pod of a group that requires affinity to its own group
// would wait forever. So while no pod anywhere satisfies the terms and the pod itself
// does, every node that has all the labels is accepted.
func (r *preFilterState) satisfiesPodAffinity(labels map[string]string) bool {
	allSatisfied, anyPod := true, false
	for i, key := range r.affinityKeys {
		domain, ok := labels[key]
		if !ok {
			return false
		}
		allSatisfied = allSatisfied && r.affinityCounts[i].Get(domain) > 0
		anyPod = anyPod || !r.affinityCounts[i].AllZero()
	}
	return allSatisfied || !anyPod && r.selfMatch
}

func getPreFilterState(state fwk.CycleState) (*preFilterState, error) {
	return framework.ReadStateData[*preFilterState](state, preFilterStateKey, Name, "PreFilter")
}
