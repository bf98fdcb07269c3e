package podtopologyspread

import (
	"context"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// ignored marks the score of a node that lacks a label, until all are known.
const invalidScore = -1

// soft is the pod's soft constraints and how matters stand in the domains of
// the nodes that are scored.
type preScoreState struct {
	constraints []constraint
	// pods, tallies and weights go with constraints. Host names have no tally:
	// each is a domain of its own, and its pods are those of the node.
	podSets []*framework.PodSet
	counts  []*framework.DomainSums
	weights []float64
	// ignored are the nodes that lack a label.
	ignoredNodes sets.Set[string]
}

// Clone returns the same value: nothing changes it.
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

// required are the labels without which a node counts for nothing. Under
// kube-scheduler's own defaults a node need not have every label: a cluster
// without zones is still spread by host name.
func (p *Plugin) requiredLabels(pod *v1.Pod, constraints []constraint) []string {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || !p.systemDefaulting {
		return topologyKeys(constraints)
	}
	return nil
}

func (p *Plugin) newPreScoreState(pod *v1.Pod, constraints []constraint, nodes []fwk.NodeInfo, required []string) *preScoreState {
	s := &preScoreState{
		constraints: constraints,
		podSets:     make([]*framework.PodSet, len(constraints)),
		counts:      make([]*framework.DomainSums, len(constraints)),
		weights:     make([]float64, len(constraints)),
	}
	var domains []sets.Set[string]
	domains, s.ignoredNodes = collectDomains(constraints, nodes, required)
	limits := scopesOf(pod, constraints, required)
	var queries []framework.PodQuery
	var asked []int
	for i, c := range constraints {
		s.podSets[i] = c.podSet(pod)
		if c.topologyKey == v1.LabelHostname {
			s.weights[i] = topologyNormalizingWeight(len(nodes) - len(s.ignoredNodes))
			continue
		}
		s.weights[i] = topologyNormalizingWeight(len(domains[i]))
		asked = append(asked, i)
		queries = append(queries, framework.PodQuery{
			TopologyKey: c.topologyKey, Pods: s.podSets[i], Scope: limits[i],
			// Without the label a node is in the domain "", which it may share
			// with nodes whose label is empty.
			IncludeUnlabelled: required == nil, Within: domains[i],
		})
	}
	if len(queries) == 0 {
		return s
	}
	for i, tally := range p.counts.Pods(queries...) {
		s.counts[asked[i]] = tally
	}
	return s
}

// domainsOf returns, for each constraint, the domains of nodes, and the names
// of the nodes that lack a label of required and count for nothing. Under
// system defaults a node without the label adds the domain "".
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

// domainWeight evens out topologies of different sizes: the pods of one domain
// out of many count more.
func topologyNormalizingWeight(domains int) float64 { return math.Log(float64(domains + 2)) }

// Score is the weighted number of pods in the node's domains: the lower the
// better.
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

// crowd is what a domain with so many pods adds to a score; a larger maxSkew
// waters the differences down. The order of the operations decides the last
// bit, and with it upstream's score: do not rearrange.
func scoreForCount(pods int64, maxSkew int32, weight float64) float64 {
	return float64(pods)*weight + float64(maxSkew-1)
}

// ScoreExtensions returns the plugin, which normalises.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns the scores round: the least crowded node gets the most,
// an ignored node nothing.
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

// turned is a score turned round between the least and the most of them.
func reversedScore(score, least, most int64) int64 {
	if most == 0 {
		return fwk.MaxScore
	}
	return fwk.MaxScore * (most + least - score) / most
}

func getPreScoreState(state fwk.CycleState) (*preScoreState, error) {
	return framework.ReadStateData[*preScoreState](state, preScoreStateKey, Name, "PreScore")
}
