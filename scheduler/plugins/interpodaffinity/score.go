package interpodaffinity

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// preferred is what the pod and the placed pods prefer of each other.
type preferred struct {
	// own are the pod's preferences, others the weights of the terms of placed
	// pods that the pod matches.
	own    []preference
	others *framework.TermTallies
}

// preference is one of the pod's terms, with the number of pods by domain.
type preference struct {
	key    string
	weight int64
	pods   *framework.Tally
}

// Clone returns the same value: nothing changes it.
func (p *preferred) Clone() fwk.StateData { return p }

// PreScore counts what the preferences speak of. It skips Score when nobody
// prefers anything.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if p.ownOnly && !prefers(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	own, err := p.preferences(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	wishes := &preferred{own: own, others: p.othersOf(pod)}
	if !wishes.matter() {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(scoreKey, wishes)
	return nil
}

// othersOf returns the weights of the terms of placed pods that the pod
// matches.
func (p *Plugin) othersOf(pod *v1.Pod) *framework.TermTallies {
	return p.counts.Terms(framework.TermQuery{
		Pod: pod, Namespace: p.labelsOf(pod.Namespace),
		RequiredAffinity: p.hardWeight, PreferredAffinity: 1, PreferredAntiAffinity: -1,
	})
}

// matter reports whether anybody prefers anything anywhere.
func (p *preferred) matter() bool {
	for i := range p.own {
		if !p.own[i].pods.Zero() {
			return true
		}
	}
	return p.others.Listed()
}

// preferences returns the pod's preferred terms; a weight against something is
// negative. The error says what does not parse.
func (p *Plugin) preferences(pod *v1.Pod) ([]preference, error) {
	terms, err := framework.AffinityTermsOf(pod)
	if err != nil {
		return nil, fmt.Errorf("parsing pod: %w", err)
	}
	var own []preference
	var queries []framework.PodQuery
	for _, list := range []struct {
		terms []fwk.WeightedAffinityTerm
		sign  int64
	}{{terms.PreferredAffinity, 1}, {terms.PreferredAntiAffinity, -1}} {
		for i := range list.terms {
			t := &list.terms[i]
			pods, err := p.podsOf(&t.AffinityTerm)
			if err != nil {
				return nil, err
			}
			own = append(own, preference{key: t.TopologyKey, weight: list.sign * int64(t.Weight)})
			queries = append(queries, framework.PodQuery{TopologyKey: t.TopologyKey, Pods: pods})
		}
	}
	if len(queries) == 0 {
		return nil, nil
	}
	for i, tally := range p.counts.Pods(queries...) {
		own[i].pods = tally
	}
	return own, nil
}

// Score adds up the weights of what is near the node; it may be negative.
func (*Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	p, err := preferredOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	labels := node.Node().Labels
	var score int64
	for i := range p.own {
		if domain, ok := labels[p.own[i].key]; ok {
			score += p.own[i].weight * p.own[i].pods.Of(domain)
		}
	}
	for key, tally := range p.others.By {
		if domain, ok := labels[key]; ok {
			score += tally.Of(domain)
		}
	}
	return score, nil
}

// ScoreExtensions returns the plugin, which normalises.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore stretches the scores from 0 to 100; when all are the same they
// become 0. The order of the operations decides the last bit, and with it
// upstream's score: do not rearrange.
func (*Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	if _, err := preferredOf(state); err != nil {
		return fwk.AsStatus(err)
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range scores {
		least, most = min(least, scores[i].Score), max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = stretched(scores[i].Score, least, most)
	}
	return nil
}

// stretched is a score's place between the least and the most, out of 100.
func stretched(score, least, most int64) int64 {
	if most <= least {
		return 0
	}
	return int64(float64(fwk.MaxScore) * (float64(score-least) / float64(most-least)))
}

func preferredOf(state fwk.CycleState) (*preferred, error) {
	return framework.Noted[*preferred](state, scoreKey, Name, "PreScore")
}
