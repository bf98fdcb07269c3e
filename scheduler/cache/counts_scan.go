package cache

import (
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

var _ counts.Lister = &Snapshot{}

// Counts returns what counts the pods of the snapshot.
func (s *Snapshot) Counts() counts.Counts {
	if s.useScan {
		return scanCounts{s}
	}
	return s.incremental
}

// scanCounts answers each query by a scan over nodes and pods. It is the
// reference implementation of incrementalCounts.
type scanCounts struct{ *Snapshot }

// Pods answers all queries with one pass over the nodes.
func (s scanCounts) Pods(queries ...counts.PodQuery) []*counts.DomainSums {
	byQuery := make([]map[string]int64, len(queries))
	for i := range byQuery {
		byQuery[i] = map[string]int64{}
	}
	for _, node := range s.list {
		var counted *counts.PodSet
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
				byQuery[i][domain] += here
			}
		}
	}
	sums := make([]*counts.DomainSums, len(queries))
	for i := range sums {
		sums[i] = counts.NewDomainSums(byQuery[i])
	}
	return sums
}

// Terms scans the pods that have terms of the kinds that q weighs.
func (s scanCounts) Terms(q counts.TermQuery) *counts.TermSums {
	s.buildAffinityLists()
	nodes, podsOf := s.withAffinity, fwk.NodeInfo.GetPodsWithAffinity
	if q.RequiredAffinity == 0 && q.PreferredAffinity == 0 && q.PreferredAntiAffinity == 0 {
		nodes, podsOf = s.withRequiredAntiAffinity, fwk.NodeInfo.GetPodsWithRequiredAntiAffinity
	}
	byKey := map[string]map[string]int64{}
	for _, node := range nodes {
		labels := node.Node().Labels
		for _, pod := range podsOf(node) {
			for key, weight := range q.MatchingTerms(pod) {
				domain, ok := labels[key]
				if !ok {
					continue
				}
				if byKey[key] == nil {
					byKey[key] = map[string]int64{}
				}
				byKey[key][domain] += weight
			}
		}
	}
	sums := make(map[string]*counts.DomainSums, len(byKey))
	for key, byDomain := range byKey {
		sums[key] = counts.NewDomainSums(byDomain)
	}
	return &counts.TermSums{ByTopologyKey: sums}
}

// PodsOnNode counts the pods of the set on one node.
func (scanCounts) PodsOnNode(node fwk.NodeInfo, pods *counts.PodSet) int64 {
	return pods.CountOnNode(node)
}
