package podtopologyspread

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
)

// invalidScore marks the score of a node that lacks a label until all scores are known.
const invalidScore = -1

// preScoreState holds the pod's soft constraints and the counts of the domains of the
// scored nodes.
type preScoreState struct {
	constraints []constraint
	// podSets, counts and weights have an entry for each constraint. The counts of
	// kubernetes.io/hostname are nil: each node is a domain, and its pods are counted
	// on the node.
	podSets []*counts.PodSet
	counts  []*counts.DomainSums
	weights []float64
	// ignoredNodes are the nodes that lack a label.
	ignoredNodes sets.Set[string]
}

// Clone returns the value itself, which never changes.
func (s *preScoreState) Clone() fwk.StateData { return s }

// PreScore counts the pods by domain. It skips Score for a pod without soft
// constraints.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	all, err := p.nodes.List()
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("getting all nodes: %w", err))
	}
	if len(all) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	constraints, err := p.constraintsOf(pod, v1.ScheduleAnyway)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(constraints) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	state.Write(preScoreStateKey, p.newPreScoreState(pod, constraints, nodes, p.requiredLabels(pod, constraints)))
	return nil
}

// requiredLabels returns the labels without which a node is ignored. Under the system
// defaults no label is required: pods are spread by host name even in a cluster without
// zones.
func (p *Plugin) requiredLabels(pod *v1.Pod, constraints []constraint) []string {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || !p.systemDefaulting {
		return topologyKeys(constraints)
	}
	return nil
}

// newPreScoreState counts the pods of each constraint.
func (p *Plugin) newPreScoreState(pod *v1.Pod, constraints []constraint, nodes []fwk.NodeInfo, required []string) *preScoreState {
	s := &preScoreState{
		constraints: constraints,
		podSets:     make([]*counts.PodSet, len(constraints)),
		counts:      make([]*counts.DomainSums, len(constraints)),
		weights:     make([]float64, len(constraints)),
	}
	var domains []sets.Set[string]
	domains, s.ignoredNodes = collectDomains(constraints, nodes, required)
	scopes := scopesOf(pod, constraints, required)
	var queries []counts.PodQuery
	var indexes []int
	for i, c := range constraints {
		s.podSets[i] = c.podSet(pod)
		if c.topologyKey == v1.LabelHostname {
			s.weights[i] = topologyNormalizingWeight(len(nodes) - len(s.ignoredNodes))
			continue
		}
		s.weights[i] = topologyNormalizingWeight(len(domains[i]))
		indexes = append(indexes, i)
		queries = append(queries, counts.PodQuery{
			TopologyKey: c.topologyKey, Pods: s.podSets[i], Scope: scopes[i],
			// Without the label a node is in the domain "", which it may share
			// with nodes whose label is empty.
			IncludeUnlabelled: required == nil, Within: domains[i],
		})
	}
	if len(queries) == 0 {
		return s
	}
	for i, sum := range p.counts.Pods(queries...) {
		s.counts[indexes[i]] = sum
	}
	return s
}

// collectDomains returns the domains of nodes for each constraint, and the names of the
// nodes that lack a label in required and are ignored. Under the system defaults a node
// without the label adds the domain "".
func collectDomains(constraints []constraint, nodes []fwk.NodeInfo, required []string) ([]sets.Set[string], sets.Set[string]) {
	domains, ignored := make([]sets.Set[string], len(constraints)), sets.New[string]()
	for i := range domains {
		domains[i] = sets.New[string]()
	}
	for _, node := range nodes {
		if !hasAllLabels(node.Node(), required) {
			ignored.Insert(node.Node().Name)
			continue
		}
		for i, c := range constraints {
			if c.topologyKey != v1.LabelHostname {
				domains[i].Insert(node.Node().Labels[c.topologyKey])
			}
		}
	}
	return domains, ignored
}

// topologyNormalizingWeight makes topologies of different sizes comparable: a pod
// counts more if there are more domains.
func topologyNormalizingWeight(domains int) float64 { return math.Log(float64(domains + 2)) }

// Score is the weighted number of pods in the node's domains; lower is better.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	s, err := getPreScoreState(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if s.ignoredNodes.Has(node.Node().Name) {
		return 0, nil
	}
	var score float64
	for i, c := range s.constraints {
		domain, ok := node.Node().Labels[c.topologyKey]
		if !ok {
			continue
		}
		var pods int64
		if c.topologyKey == v1.LabelHostname {
			pods = p.counts.PodsOnNode(node, s.podSets[i])
		} else {
			pods = s.counts[i].Get(domain)
		}
		score += scoreForCount(pods, c.maxSkew, s.weights[i])
	}
	return int64(math.Round(score)), nil
}

// scoreForCount returns what a domain with this number of pods adds to a score. A
// larger maxSkew reduces the differences. The order of the floating-point operations
// decides the last bit, and with it whether the score equals upstream's: do not
// rearrange them.
func scoreForCount(pods int64, maxSkew int32, weight float64) float64 {
	return float64(pods)*weight + float64(maxSkew-1)
}

// ScoreExtensions returns the plugin, which normalizes the scores.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore reverses the scores, so that the node with the lowest gets the
// highest; an ignored node gets 0.
func (*Plugin) NormalizeScore(_ context.Context, state fwk.CycleState, _ *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, err := getPreScoreState(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	least, most := int64(math.MaxInt64), int64(0)
	for i := range scores {
		if s.ignoredNodes.Has(scores[i].Name) {
			scores[i].Score = invalidScore
			continue
		}
		least, most = min(least, scores[i].Score), max(most, scores[i].Score)
	}
	for i := range scores {
		if scores[i].Score == invalidScore {
			scores[i].Score = 0
		} else {
			scores[i].Score = reversedScore(scores[i].Score, least, most)
		}
	}
	return nil
}

// reversedScore reverses score, given the least and the most of all scores.
func reversedScore(score, least, most int64) int64 {
	if most == 0 {
		return fwk.MaxScore
	}
	return fwk.MaxScore * (most + least - score) / most
}

func getPreScoreState(state fwk.CycleState) (*preScoreState, error) {
	return framework.ReadStateData[*preScoreState](state, preScoreStateKey, Name, "PreScore")
}
