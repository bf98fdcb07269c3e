package cache

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.CountingLister = &Snapshot{}

// Counts counts the pods of the snapshot.
func (s *Snapshot) Counts() framework.Counts {
	if s.scans {
		return scan{s}
	}
	return s.kept
}

// scan answers by looking at all there is, each time: it is what an answer is
// defined by, and the dumb twin of whatever keeps answers.
type scan struct{ *Snapshot }

// Pods walks the nodes once for all queries.
func (s scan) Pods(queries ...framework.PodQuery) []*framework.Tally {
	numbers := make([]map[string]int64, len(queries))
	for i := range numbers {
		numbers[i] = map[string]int64{}
	}
	for _, node := range s.list {
		var counted *framework.PodSet
		var here int64
		for i := range queries {
			q := &queries[i]
			domain, ok := q.Domain(node.Node())
			if !ok {
				continue
			}
			if counted != q.Pods {
				counted, here = q.Pods, q.Pods.On(node)
			}
			if here > 0 || q.Vacant {
				numbers[i][domain] += here
			}
		}
	}
	tallies := make([]*framework.Tally, len(queries))
	for i := range tallies {
		tallies[i] = framework.NewTally(numbers[i])
	}
	return tallies
}

// Terms walks the pods that have terms of the kinds that are asked for.
func (s scan) Terms(q framework.TermQuery) *framework.TermTallies {
	s.sortOut()
	nodes, podsOf := s.withAffinity, fwk.NodeInfo.GetPodsWithAffinity
	if q.RequiredAffinity == 0 && q.PreferredAffinity == 0 && q.PreferredAntiAffinity == 0 {
		nodes, podsOf = s.withAnti, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity
	}
	numbers := map[string]map[string]int64{}
	for _, node := range nodes {
		labels := node.Node().Labels
		for _, pod := range podsOf(node) {
			for key, weight := range q.Of(pod) {
				domain, ok := labels[key]
				if !ok {
					continue
				}
				if numbers[key] == nil {
					numbers[key] = map[string]int64{}
				}
				numbers[key][domain] += weight
			}
		}
	}
	tallies := make(map[string]*framework.Tally, len(numbers))
	for key, byDomain := range numbers {
		tallies[key] = framework.NewTally(byDomain)
	}
	return &framework.TermTallies{By: tallies}
}

// On counts on one node.
func (scan) On(node fwk.NodeInfo, pods *framework.PodSet) int64 { return pods.On(node) }
