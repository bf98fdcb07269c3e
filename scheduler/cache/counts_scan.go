package cache

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

var _ framework.CountingLister = &Snapshot{}

// Counts returns what counts the pods of the snapshot.
func (s *Snapshot) Counts() framework.Counts {
	if s.useScan {
		return scanCounts{s}
	}
	return s.incremental
}

// scanCounts answers each query by a scan over nodes and pods. It is the
// reference implementation of incrementalCounts.
type scanCounts struct{ *Snapshot }

// Pods answers all queries with one pass over the nodes.
func (s scanCounts) Pods(queries ...framework.PodQuery) []*framework.DomainSums {
	counts := make([]map[string]int64, len(queries))
	for i := range counts {
		counts[i] = map[string]int64{}
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
				counts[i][domain] += here
			}
		}
	}
	sums := make([]*framework.DomainSums, len(queries))
	for i := range sums {
		sums[i] = framework.NewDomainSums(counts[i])
	}
	return sums
}

// Terms scans the pods that have terms of the kinds that q weighs.
func (s scanCounts) Terms(q framework.TermQuery) *framework.TermSums {
	s.buildAffinityLists()
	nodes, podsOf := s.withAffinity, fwk.NodeInfo.GetPodsWithAffinity
	if q.RequiredAffinity == 0 && q.PreferredAffinity == 0 && q.PreferredAntiAffinity == 0 {
		nodes, podsOf = s.withRequiredAntiAffinity, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity
	}
	counts := map[string]map[string]int64{}
	for _, node := range nodes {
		labels := node.Node().Labels
		for _, pod := range podsOf(node) {
			for key, weight := range q.MatchingTerms(pod) {
				domain, ok := labels[key]
				if !ok {
					continue
				}
				if counts[key] == nil {
					counts[key] = map[string]int64{}
				}
				counts[key][domain] += weight
			}
		}
	}
	sums := make(map[string]*framework.DomainSums, len(counts))
	for key, byDomain := range counts {
		sums[key] = framework.NewDomainSums(byDomain)
	}
	return &framework.TermSums{ByTopologyKey: sums}
}

// PodsOnNode counts the pods of the set on one node.
func (scanCounts) PodsOnNode(node fwk.NodeInfo, pods *framework.PodSet) int64 {
	return pods.CountOnNode(node)
}
