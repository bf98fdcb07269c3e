package cache

import (
	"cmp"
	"slices"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
)

// incrementalCounts holds counts of pods by topology domain. A count is made by
// a scan when it is first queried, and follows each change of the snapshot from
// then on: an added pod costs only the counts that it belongs to. Queries beyond
// the limits fall back to scanCounts, its reference implementation.
type incrementalCounts struct {
	scanCounts
	columns *counts.Columns
	podSets map[string]*podSetCounts
	groups  selectorGroups
	terms   incrementalTerms
	// latest holds the newest topologyCounts of all sets by the key of
	// byTopology. Those of another set have the same domains, and the same nodes
	// in scope.
	latest map[string]*topologyCounts
	// topologyTotal is the number of topologyCounts of all podSets.
	topologyTotal int
}

var _ counts.Incremental = &incrementalCounts{}

// podSetCounts is a set of pods, counted by node and by topology domain.
type podSetCounts struct {
	*counts.PodSet
	byNode     *counts.NodeCounts
	byTopology map[string]*topologyCounts
}

// topologyCounts counts a set of pods by the domains of one topology key and
// scope.
type topologyCounts struct {
	*counts.DomainValues
	scope *counts.Scope
	// inScope says which nodes count, by slot.
	inScope []bool
}

func newIncrementalCounts(s *Snapshot) *incrementalCounts {
	k := &incrementalCounts{scanCounts: scanCounts{s}, columns: s.columns, podSets: map[string]*podSetCounts{}, latest: map[string]*topologyCounts{}}
	k.groups.reset(nil)
	k.terms.reset()
	k.columns.OnEvict, k.columns.OnFull = k.dropReclaimedDomains, k.terms.compact
	return k
}

// Pods answers each query with counts that follow the snapshot. They hold all
// domains, also those that the query excludes.
func (k *incrementalCounts) Pods(queries ...counts.PodQuery) []*counts.DomainSums {
	query := k.columns.NextQuery()
	sums := make([]*counts.DomainSums, len(queries))
	for i := range queries {
		topology := k.podSet(queries[i].Pods).topologyCounts(k, &queries[i])
		if topology == nil {
			return k.scanCounts.Pods(queries...)
		}
		topology.LastQuery = query
		sums[i] = counts.DomainSumsOf(topology.DomainValues)
	}
	return sums
}

// ByNode counts pods by node, and the counts follow the snapshot.
func (k *incrementalCounts) ByNode(pods *counts.PodSet) *counts.NodeCounts {
	k.columns.NextQuery()
	return k.podSet(pods).byNode
}

// podSet returns the counts of the set that equals pods, and makes them when
// there are none.
func (k *incrementalCounts) podSet(pods *counts.PodSet) *podSetCounts {
	key := podclass.PodSetKey(pods)
	set, known := k.podSets[key]
	if !known {
		k.evictPodSets()
		set = &podSetCounts{PodSet: pods, byNode: counts.NewNodeCounts(k.columns), byTopology: map[string]*topologyCounts{}}
		k.podSets[key] = set
		k.groups.addSet(set, k.columns)
	}
	set.byNode.LastQuery = *k.columns.QueryCounter()
	return set
}

// growTo extends the counts by node up to slot.
func (s *podSetCounts) growTo(slot counts.Slot) {
	if more := int(slot) + 1 - len(s.byNode.BySlot); more > 0 {
		s.byNode.BySlot = append(s.byNode.BySlot, make([]int32, more)...)
	}
}

// topologyCounts returns the counts for the topology key and the scope of q, nil
// when too many topology keys are in use.
func (s *podSetCounts) topologyCounts(k *incrementalCounts, q *counts.PodQuery) *topologyCounts {
	key := podclass.ScopeKey(q.Scope) + "\x00" + q.TopologyKey
	if q.IncludeUnlabelled {
		key += "\x00"
	}
	if topology, known := s.byTopology[key]; known {
		topology.Domains.Current() // marks the domains as used
		return topology
	}
	k.evictTopologies(s)
	domains := k.columns.Domains(q.TopologyKey, q.IncludeUnlabelled)
	if domains == nil {
		return nil
	}
	topology := k.latest[key].forSet(s)
	if topology == nil {
		topology = &topologyCounts{DomainValues: counts.NewDomainValues(domains), scope: q.Scope}
		for _, slot := range k.slots {
			topology.addNode(slot, k.columns, s.byNode.BySlot[slot])
		}
	}
	s.byTopology[key], k.latest[key] = topology, topology
	k.topologyTotal++
	return topology
}

// forSet returns the counts of another set for the same topology key and scope;
// nil for nil. Unlike addNode for each node it evaluates the scope for none.
func (n *topologyCounts) forSet(s *podSetCounts) *topologyCounts {
	if n == nil {
		return nil
	}
	other := &topologyCounts{DomainValues: n.WithSameListings(), scope: n.scope, inScope: slices.Clone(n.inScope)}
	domains := n.Domains.BySlot()
	for slot, pods := range s.byNode.BySlot {
		if pods != 0 && slot < len(other.inScope) && other.inScope[slot] {
			other.Add(domains[slot], int64(pods))
		}
	}
	return other
}

// addNode adds the pods of a node.
func (n *topologyCounts) addNode(slot counts.Slot, columns *counts.Columns, pods int32) {
	for len(n.inScope) <= int(slot) {
		n.inScope = append(n.inScope, false)
	}
	domain := n.Domains.BySlot()[slot]
	if n.inScope[slot] = domain != counts.NoDomain && n.scope.Includes(columns.Nodes[slot].Node()); n.inScope[slot] {
		n.AddListings(domain, 1)
		n.Add(domain, int64(pods))
	}
}

// removeNode subtracts the pods of a node.
func (n *topologyCounts) removeNode(slot counts.Slot, pods int32) {
	if int(slot) < len(n.inScope) && n.inScope[slot] {
		n.inScope[slot] = false
		n.Add(n.Domains.BySlot()[slot], -int64(pods))
		n.AddListings(n.Domains.BySlot()[slot], -1)
	}
}

// addNode adds a node that got its slot, or whose labels or taints changed.
func (k *incrementalCounts) addNode(slot counts.Slot) {
	for _, set := range k.podSets {
		set.growTo(slot)
		set.byNode.BySlot[slot] = 0
	}
	k.groups.countNode(k.columns, slot, 1, func(set *podSetCounts) { set.byNode.BySlot[slot]++ })
	for _, set := range k.podSets {
		for _, topology := range set.byTopology {
			topology.addNode(slot, k.columns, set.byNode.BySlot[slot])
		}
	}
	k.terms.addNode(k.columns, slot)
}

// removeNode subtracts a node. The columns must still hold it.
func (k *incrementalCounts) removeNode(slot counts.Slot) {
	for _, set := range k.podSets {
		set.growTo(slot)
		for _, topology := range set.byTopology {
			topology.removeNode(slot, set.byNode.BySlot[slot])
		}
		set.byNode.BySlot[slot] = 0
	}
	k.groups.countNode(k.columns, slot, -1, func(*podSetCounts) {})
	k.terms.countNode(k.columns, slot, -1)
}

// countPod adds a pod on the node in slot, or subtracts it when by is -1.
func (k *incrementalCounts) countPod(slot counts.Slot, pod *framework.PodInfo, by int32) {
	for _, set := range k.groups.countPod(slot, pod, by) {
		set.growTo(slot)
		set.byNode.BySlot[slot] += by
		for _, topology := range set.byTopology {
			if topology.inScope[slot] {
				topology.Add(topology.Domains.BySlot()[slot], int64(by))
			}
		}
	}
	k.terms.countPod(k.columns, slot, pod, int64(by))
}

// Counts are limited in number, because a change of a node's labels touches each
// of them, and in bytes, because each has an entry per node. Beyond a limit the
// least recently used ones are dropped; a later query makes them again.
const (
	// maxPodSets limits the sets of pods that are counted.
	maxPodSets = 4096
	// maxTopologies limits the topologyCounts of all sets together, and
	// maxTopologiesPerSet those of one set.
	maxTopologies, maxTopologiesPerSet = 2048, 256
	// minRetained is how many sets, and how many topologyCounts, may be
	// retained in a cluster of any size.
	minRetained = 64
	// maxCountBytes limits the memory of all sets, and again that of all
	// topologyCounts.
	maxCountBytes = 128 << 20
	// podSetBytesPerNode and topologyBytesPerNode are the most bytes that a
	// set, or a topologyCounts, takes for each node.
	podSetBytesPerNode, topologyBytesPerNode = 4, 13
)

// limit returns how many items of so many bytes per node may be retained.
func (k *incrementalCounts) limit(most, bytes int) int {
	return max(minRetained, min(most, maxCountBytes/(bytes*max(1, len(k.columns.Nodes)))))
}

// evictPodSets drops the least recently used quarter of the sets when one more
// would exceed the limit.
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
		for key := range old.set.byTopology {
			k.dropTopology(topologyRef{old.set, key})
		}
		old.set.byNode.Dropped = true
		delete(k.podSets, old.key)
	}
	k.groups.reset(k.podSets)
	k.groups.regroup(k.columns)
}

// lastUsed returns the number of the query that used the set last.
func (s *podSetCounts) lastUsed() uint64 {
	query := s.byNode.LastQuery
	for _, topology := range s.byTopology {
		query = max(query, topology.LastQuery)
	}
	return query
}

// topologyRef identifies one topologyCounts.
type topologyRef struct {
	set *podSetCounts
	key string
}

// evictTopologies drops topologyCounts when one more for set would exceed a
// limit: a quarter of those of the set, or of all.
func (k *incrementalCounts) evictTopologies(set *podSetCounts) {
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

// appendTopologies appends all topologyCounts of the set to all.
func (s *podSetCounts) appendTopologies(all []topologyRef) []topologyRef {
	for key := range s.byTopology {
		all = append(all, topologyRef{s, key})
	}
	return all
}

// evictLeastRecentlyUsed drops the least recently used quarter of all.
func (k *incrementalCounts) evictLeastRecentlyUsed(all []topologyRef) {
	query := func(n topologyRef) uint64 { return n.set.byTopology[n.key].LastQuery }
	slices.SortFunc(all, func(a, b topologyRef) int { return cmp.Compare(query(a), query(b)) })
	for _, old := range all[:len(all)/4] {
		k.dropTopology(old)
	}
}

// dropTopology drops one topologyCounts.
func (k *incrementalCounts) dropTopology(n topologyRef) {
	topology := n.set.byTopology[n.key]
	topology.Drop()
	delete(n.set.byTopology, n.key)
	if k.latest[n.key] == topology {
		delete(k.latest, n.key)
	}
	k.topologyTotal--
}

// dropReclaimedDomains drops the counts of domains that the columns dropped.
func (k *incrementalCounts) dropReclaimedDomains(domains *counts.Domains) {
	for _, set := range k.podSets {
		for key, topology := range set.byTopology {
			if topology.Domains == domains {
				k.dropTopology(topologyRef{set, key})
			}
		}
	}
}
