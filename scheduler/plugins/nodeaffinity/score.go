package nodeaffinity

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// preferred is the pod's parsed preferences; terms is nil without any.
type preScoreState struct {
	terms *nodeaffinity.PreferredSchedulingTerms
}

// Clone returns the same value: nothing changes it.
func (p *preScoreState) Clone() fwk.StateData { return p }

// PreScore parses what the pod prefers. It skips Score when neither the pod
// nor the profile prefers anything.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	terms, err := preferredTerms(pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if terms == nil && p.addedPreferredTerms == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(preScoreStateKey, &preScoreState{terms: terms})
	return nil
}

// preferredTerms is nil when the pod has no list of preferences. An empty list
// is not nil: PreScore does not skip then, as upstream's does not.
func preferredTerms(pod *v1.Pod) (*nodeaffinity.PreferredSchedulingTerms, error) {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil ||
		affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, nil
	}
	return nodeaffinity.NewPreferredSchedulingTerms(affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
}

// Score adds up the weights of the terms that select the node, the profile's
// and the pod's.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	terms, err := preScoreTerms(state, pod)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return p.sumWeights(terms, node.Node()), nil
}

// weigh adds up the profile's terms and those of a pod, which may be nil.
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

// preferredOf reads PreScore's note, or parses again where a profile has Score
// without PreScore.
func preScoreTerms(state fwk.CycleState, pod *v1.Pod) (*nodeaffinity.PreferredSchedulingTerms, error) {
	if note, err := state.Read(preScoreStateKey); err == nil {
		if p, ok := note.(*preScoreState); ok {
			return p.terms, nil
		}
	}
	return preferredTerms(pod)
}

// ScoreExtensions returns the plugin, which normalises.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore gives 100 to the node with the largest sum.
func (*Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	framework.DefaultNormalizeScore(scores, false)
	return nil
}
