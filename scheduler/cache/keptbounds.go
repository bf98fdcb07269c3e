package cache

import (
	"cmp"
	"slices"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// What is counted is bounded in numbers, which is what a node costs whose labels
// change, and in bytes, which grow with the nodes. What was used least recently
// is dropped, and counted again when it is asked for.
const (
	// maxSets bounds the sets of pods that are counted.
	maxPodSets = 4096
	// maxNumbers bounds the numbers that all sets have together, and
	// maxNumbersOfSet those of one set.
	maxTopologies, maxTopologiesPerSet = 2048, 256
	// fewest is how many sets, and how many numbers, may be kept in clusters of
	// any size.
	minRetained = 64
	// maxCountBytes bounds what sets take, and once more what numbers take.
	maxCountBytes = 128 << 20
	// setBytes and numberBytes are the most that one takes for each node.
	podSetBytesPerNode, topologyBytesPerNode = 4, 13
)

// bound is how many may be kept that take so many bytes for each node.
func (k *incrementalCounts) limit(most, bytes int) int {
	return max(minRetained, min(most, maxCountBytes/(bytes*max(1, len(k.columns.Nodes)))))
}

// evictSets drops a quarter of the sets when one more would be too many: those
// that were used least recently.
func (k *incrementalCounts) evictPodSets() {
	if len(k.podSets) < k.limit(maxPodSets, podSetBytesPerNode) {
		return
	}
	type named struct {
		key string
		set *podSetCounts
	}
	var all []named
	for key, set := range k.podSets {
		all = append(all, named{key, set})
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(a.set.lastUsed(), b.set.lastUsed()) })
	for _, old := range all[:len(all)/4] {
		k.topologyTotal -= len(old.set.byTopology)
		old.set.drop()
		delete(k.podSets, old.key)
	}
	k.groups.reset(k.podSets)
	k.groups.regroup(k.columns)
}

// used is the turn in which the set was used last.
func (s *podSetCounts) lastUsed() uint64 {
	turn := s.byNode.LastQuery
	for _, numbers := range s.byTopology {
		turn = max(turn, numbers.LastQuery)
	}
	return turn
}

func (s *podSetCounts) drop() {
	s.byNode.Dropped = true
	for _, numbers := range s.byTopology {
		numbers.Drop()
	}
}

// numbersOf names one of a set's numbers.
type topologyRef struct {
	set *podSetCounts
	key string
}

// evictNumbers drops numbers when one more of set would be too many: a quarter of
// the set's, or of all.
func (k *incrementalCounts) evictTopologies(set *podSetCounts) {
	if fault.NumbersNeverEvicted {
		return
	}
	if len(set.byTopology) >= maxTopologiesPerSet {
		k.evictLeastRecentlyUsed(set.appendTopologies(nil))
	}
	if k.topologyTotal >= k.limit(maxTopologies, topologyBytesPerNode) {
		var all []topologyRef
		for _, s := range k.podSets {
			all = s.appendTopologies(all)
		}
		k.evictLeastRecentlyUsed(all)
	}
}

// list appends the set's numbers to all.
func (s *podSetCounts) appendTopologies(all []topologyRef) []topologyRef {
	for key := range s.byTopology {
		all = append(all, topologyRef{s, key})
	}
	return all
}

// evictOldest drops the quarter of all that was used least recently.
func (k *incrementalCounts) evictLeastRecentlyUsed(all []topologyRef) {
	turn := func(n topologyRef) uint64 { return n.set.byTopology[n.key].LastQuery }
	slices.SortFunc(all, func(a, b topologyRef) int { return cmp.Compare(turn(a), turn(b)) })
	for _, old := range all[:len(all)/4] {
		k.dropTopology(old)
	}
}

func (k *incrementalCounts) dropTopology(n topologyRef) {
	n.set.byTopology[n.key].Drop()
	delete(n.set.byTopology, n.key)
	k.topologyTotal--
}

// reclaimed forgets the numbers of domains that are no longer kept.
func (k *incrementalCounts) dropReclaimedDomains(domains *framework.Domains) {
	for _, set := range k.podSets {
		for key, numbers := range set.byTopology {
			if numbers.Domains == domains {
				k.dropTopology(topologyRef{set, key})
			}
		}
	}
}
