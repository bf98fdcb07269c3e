package cache

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.CountingLister = &Snapshot{}

// Counts counts the pods of the snapshot.
func (s *Snapshot) Counts() framework.Counts {
	if s.useScan {
		return scanCounts{s}
	}
	return s.incremental
}

// scan answers by looking at all there is, each time: it is what an answer is
// defined by, and the dumb twin of whatever keeps answers.
type scanCounts struct{ *Snapshot }

// Pods walks the nodes once for all queries.
func (s scanCounts) Pods(queries ...framework.PodQuery) []*framework.DomainSums {
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
				counted, here = q.Pods, q.Pods.CountOnNode(node)
			}
			if here > 0 || q.IncludeEmpty {
				numbers[i][domain] += here
			}
		}
	}
	tallies := make([]*framework.DomainSums, len(queries))
	for i := range tallies {
		tallies[i] = framework.NewDomainSums(numbers[i])
	}
	return tallies
}

// Terms walks the pods that have terms of the kinds that are asked for.
func (s scanCounts) Terms(q framework.TermQuery) *framework.TermSums {
	s.buildAffinityLists()
	nodes, podsOf := s.withAffinity, fwk.NodeInfo.GetPodsWithAffinity
	if q.RequiredAffinity == 0 && q.PreferredAffinity == 0 && q.PreferredAntiAffinity == 0 {
		nodes, podsOf = s.withRequiredAntiAffinity, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity
	}
	numbers := map[string]map[string]int64{}
	for _, node := range nodes {
		labels := node.Node().Labels
		for _, pod := range podsOf(node) {
			for key, weight := range q.MatchingTerms(pod) {
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
	tallies := make(map[string]*framework.DomainSums, len(numbers))
	for key, byDomain := range numbers {
		tallies[key] = framework.NewDomainSums(byDomain)
	}
	return &framework.TermSums{ByTopologyKey: tallies}
}

// On counts on one node.
func (scanCounts) PodsOnNode(node fwk.NodeInfo, pods *framework.PodSet) int64 {
	return pods.CountOnNode(node)
}
