package interpodaffinity

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// preScoreState holds the preferred terms of the pod and of the placed pods.
type preScoreState struct {
	// own are the pod's preferred terms. existingPods holds the weights by domain of
	// the terms of placed pods that select the pod.
	own          []weightedTerm
	existingPods *counts.TermSums
}

// weightedTerm is a preferred term of the pod, with the counts by domain of the pods
// that it selects.
type weightedTerm struct {
	topologyKey string
	weight      int64
	counts      *counts.DomainSums
}

// Clone returns the value itself, which never changes.
func (p *preScoreState) Clone() fwk.StateData { return p }

// PreScore counts the pods that preferred terms select. It skips Score when there are
// none.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if p.ignorePreferredTermsOfExistingPods && !hasPreferredTerms(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	own, err := p.preferredTerms(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	s := &preScoreState{own: own, existingPods: p.termsOfExistingPods(pod)}
	if !s.hasAnyTerm() {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(preScoreStateKey, s)
	return nil
}

// termsOfExistingPods returns the weights of the terms of placed pods that select the
// pod.
func (p *Plugin) termsOfExistingPods(pod *v1.Pod) *counts.TermSums {
	return p.counts.Terms(counts.TermQuery{
		Pod: pod, Namespace: p.namespaceLabels(pod.Namespace),
		RequiredAffinity: p.hardPodAffinityWeight, PreferredAffinity: 1, PreferredAntiAffinity: -1,
	})
}

// hasAnyTerm reports whether any preferred term selects any pod.
func (p *preScoreState) hasAnyTerm() bool {
	for i := range p.own {
		if !p.own[i].counts.AllZero() {
			return true
		}
	}
	return p.existingPods.HasListed()
}

// preferredTerms returns the pod's preferred terms; anti-affinity terms have a negative
// weight. It returns an error when a term does not parse.
func (p *Plugin) preferredTerms(pod *v1.Pod) ([]weightedTerm, error) {
	terms, err := framework.AffinityTermsOf(pod)
	if err != nil {
		return nil, fmt.Errorf("parsing pod: %w", err)
	}
	var own []weightedTerm
	var queries []counts.PodQuery
	for _, list := range []struct {
		terms []fwk.WeightedAffinityTerm
		sign  int64
	}{{terms.PreferredAffinity, 1}, {terms.PreferredAntiAffinity, -1}} {
		for i := range list.terms {
			t := &list.terms[i]
			pods, err := p.podSetOf(&t.AffinityTerm)
			if err != nil {
				return nil, err
			}
			own = append(own, weightedTerm{topologyKey: t.TopologyKey, weight: list.sign * int64(t.Weight)})
			queries = append(queries, counts.PodQuery{TopologyKey: t.TopologyKey, Pods: pods})
		}
	}
	if len(queries) == 0 {
		return nil, nil
	}
	for i, sum := range p.counts.Pods(queries...) {
		own[i].counts = sum
	}
	return own, nil
}

// Score sums up the weights of the terms that are satisfied in the node's domains. It
// may be negative.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p, err := getPreScoreState(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	labels := node.Node().Labels
	var score int64
	for i := range p.own {
		if domain, ok := labels[p.own[i].topologyKey]; ok {
			score += p.own[i].weight * p.own[i].counts.Get(domain)
		}
	}
	for key, sum := range p.existingPods.ByTopologyKey {
		if domain, ok := labels[key]; ok {
			score += sum.Get(domain)
		}
	}
	return score, nil
}

// ScoreExtensions returns the plugin, which normalizes the scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales the scores linearly to the range from 0 to 100. If all are
// equal they become 0. The order of the floating-point operations decides the last bit,
// and with it whether the score equals upstream's: do not rearrange them.
func (*Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if _, err := getPreScoreState(state); err != nil {
		return fwk.AsStatus(err)
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range scores {
		least, most = min(least, scores[i].Score), max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = normalizedScore(scores[i].Score, least, most)
	}
	return nil
}

// normalizedScore scales score from the range between least and most to the range from
// 0 to 100.
func normalizedScore(score, least, most int64) int64 {
	if most <= least {
		return 0
	}
	return int64(float64(fwk.MaxScore) * (float64(score-least) / float64(most-least)))
}

func getPreScoreState(state fwk.CycleState) (*preScoreState, error) {
	return framework.ReadStateData[*preScoreState](state, preScoreStateKey, Name, "PreScore")
}
