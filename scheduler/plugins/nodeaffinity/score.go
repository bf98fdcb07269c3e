package nodeaffinity

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// preScoreState is the pod's parsed preferred terms; terms is nil when it has none.
type preScoreState struct {
	terms *nodeaffinity.PreferredSchedulingTerms
}

// Clone returns the value itself, which never changes.
func (p *preScoreState) Clone() fwk.StateData { return p }

// PreScore parses the pod's preferred terms. It skips Score when neither the pod nor
// the profile prefers anything.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	terms, err := preferredTermsOf(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if terms == nil && p.addedPreferredTerms == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(preScoreStateKey, &preScoreState{terms: terms})
	return nil
}

// preferredTermsOf returns nil when the pod has no list of preferred terms. For an empty
// list it does not return nil, so that PreScore does not skip Score then, as upstream.
func preferredTermsOf(pod *v1.Pod) (*nodeaffinity.PreferredSchedulingTerms, error) {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, nil
	}
	return nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}

// Score sums up the weights of the preferred terms of the profile and of the pod that
// select the node.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	terms, err := preScoreTerms(state, pod)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return p.sumWeights(terms, node.Node()), nil
}

// sumWeights sums up the matching weights of the profile's terms and of the pod's
// terms, which may be nil.
func (p *Plugin) sumWeights(terms *nodeaffinity.PreferredSchedulingTerms, node *v1.Node) int64 {
	var sum int64
	if p.addedPreferredTerms != nil {
		sum += p.addedPreferredTerms.Score(node)
	}
	if terms != nil {
		sum += terms.Score(node)
	}
	return sum
}

// preScoreTerms returns what PreScore parsed, or parses the terms again where a profile
// enables Score without PreScore.
func preScoreTerms(state fwk.CycleState, pod *v1.Pod) (*nodeaffinity.PreferredSchedulingTerms, error) {
	if data, err := state.Read(preScoreStateKey); err == nil {
		if p, ok := data.(*preScoreState); ok {
			return p.terms, nil
		}
	}
	return preferredTermsOf(pod)
}

// ScoreExtensions returns the plugin, which normalizes the scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore scales the scores so that the largest sum becomes 100.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.DefaultNormalizeScore(scores, false)
	return nil
}

var _ podclass.BatchScorePlugin = (*Plugin)(nil)

// BatchScore returns the batch form of Score for pods of the same class as pod.
func (p *Plugin) BatchScore(state fwk.CycleState, pod *v1.Pod, columns *counts.Columns) (podclass.BatchScore, bool) {
	terms, err := preScoreTerms(state, pod)
	if err != nil {
		return nil, false
	}
	return &batchScore{p, terms, columns}, true
}

// batchScore is the batch form of Score.
type batchScore struct {
	plugin  *Plugin
	terms   *nodeaffinity.PreferredSchedulingTerms
	columns *counts.Columns
}

// Score writes the sum of each slot to scores.
func (f *batchScore) Score(slots []counts.Slot, scores []int64) podclass.ScoreResult {
	for i, slot := range slots {
		scores[i] = f.plugin.sumWeights(f.terms, f.columns.Nodes[slot].Node())
	}
	return podclass.Scored
}

// Normalize is the batch form of NormalizeScore.
func (*batchScore) Normalize(scores []int64) { framework.DefaultNormalizeRawScores(scores, false) }
