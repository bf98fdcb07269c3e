package cache

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// kept answers from counts that are made when they are first asked for and
// move with the snapshot from then on. A bound pod costs the counts that it
// matters to. Its dumb twin is scan, which answers what kept cannot.
type incrementalCounts struct {
	scanCounts
	columns *framework.Columns
	podSets map[string]*podSetCounts
	groups  selectorGroups
	terms   incrementalTerms
	// numbers is how many numbers all sets have together.
	topologyTotal int
}

var _ framework.IncrementalCounts = &incrementalCounts{}

// keptSet is a set of pods with its numbers, by node and by domain.
type podSetCounts struct {
	*framework.PodSet
	byNode     *framework.NodeCounts
	byTopology map[string]*topologyCounts
}

// keptNumbers are the numbers of a set of pods in one topology.
type topologyCounts struct {
	*framework.DomainValues
	scope *framework.Scope
	// in says which nodes count, by slot.
	inScope []bool
}

func newIncrementalCounts(s *Snapshot) *incrementalCounts {
	k := &incrementalCounts{scanCounts: scanCounts{s}, columns: s.columns, podSets: map[string]*podSetCounts{}}
	k.groups.reset(nil)
	k.terms.reset()
	k.columns.OnEvict, k.columns.OnFull = k.dropReclaimedDomains, k.terms.compact
	return k
}

// Columns returns the snapshot's.
func (k *incrementalCounts) Columns() *framework.Columns { return k.columns }

// Pods answers each query with numbers that move with the snapshot. They are
// those of all domains, whatever the query leaves out.
func (k *incrementalCounts) Pods(queries ...framework.PodQuery) []*framework.DomainSums {
	turn := k.columns.NextQuery()
	tallies := make([]*framework.DomainSums, len(queries))
	for i := range queries {
		numbers := k.podSet(queries[i].Pods).topologyCounts(k, &queries[i])
		if numbers == nil {
			return k.scanCounts.Pods(queries...)
		}
		numbers.LastQuery = turn
		tallies[i] = framework.DomainSumsOf(numbers.DomainValues)
	}
	return tallies
}

// ByNode counts pods by node.
func (k *incrementalCounts) ByNode(pods *framework.PodSet) *framework.NodeCounts {
	k.columns.NextQuery()
	return k.podSet(pods).byNode
}

// set returns the counted set that is the same as pods.
func (k *incrementalCounts) podSet(pods *framework.PodSet) *podSetCounts {
	key := pods.Key()
	set, known := k.podSets[key]
	if !known {
		k.evictPodSets()
		set = &podSetCounts{PodSet: pods, byNode: framework.NewNodeCounts(k.columns), byTopology: map[string]*topologyCounts{}}
		k.podSets[key] = set
		k.groups.addSet(set, k.columns)
	}
	set.byNode.LastQuery = *k.columns.QueryCounter()
	return set
}

func (s *podSetCounts) growTo(slot framework.Slot) {
	for len(s.byNode.BySlot) <= int(slot) {
		s.byNode.BySlot = append(s.byNode.BySlot, 0)
	}
}

// in returns the set's numbers in the topology and the scope of q, nil when
// too many topologies are in use.
func (s *podSetCounts) topologyCounts(k *incrementalCounts, q *framework.PodQuery) *topologyCounts {
	key := q.Scope.Key() + "\x00" + q.TopologyKey
	if q.IncludeUnlabelled {
		key += "\x00"
	}
	if numbers, known := s.byTopology[key]; known {
		numbers.Domains.Current() // which counts as a use
		return numbers
	}
	k.evictTopologies(s)
	domains := k.columns.Domains(q.TopologyKey, q.IncludeUnlabelled)
	if domains == nil {
		return nil
	}
	numbers := &topologyCounts{DomainValues: framework.NewDomainValues(domains), scope: q.Scope}
	for _, slot := range k.slots {
		numbers.addNode(slot, k.columns, s.byNode.BySlot[slot])
	}
	s.byTopology[key] = numbers
	k.topologyTotal++
	return numbers
}

// nodeCame counts the pods of a node in.
func (n *topologyCounts) addNode(slot framework.Slot, columns *framework.Columns, pods int32) {
	for len(n.inScope) <= int(slot) {
		n.inScope = append(n.inScope, false)
	}
	domain := n.Domains.BySlot()[slot]
	if n.inScope[slot] = domain != framework.NoDomain && n.scope.Includes(columns.Nodes[slot].Node()); n.inScope[slot] {
		n.AddListings(domain, 1)
		n.Add(domain, int64(pods))
	}
}

// nodeLeft counts the pods of a node out.
func (n *topologyCounts) removeNode(slot framework.Slot, pods int32) {
	if int(slot) < len(n.inScope) && n.inScope[slot] {
		n.inScope[slot] = false
		n.Add(n.Domains.BySlot()[slot], -int64(pods))
		n.AddListings(n.Domains.BySlot()[slot], -1)
	}
}

// nodeCame counts a node in that got its slot, its labels or its taints.
func (k *incrementalCounts) addNode(slot framework.Slot) {
	for _, set := range k.podSets {
		set.growTo(slot)
		set.byNode.BySlot[slot] = 0
	}
	k.groups.countNode(k.columns, slot, 1, func(set *podSetCounts) { set.byNode.BySlot[slot]++ })
	for _, set := range k.podSets {
		for _, numbers := range set.byTopology {
			numbers.addNode(slot, k.columns, set.byNode.BySlot[slot])
		}
	}
	k.terms.addNode(k.columns, slot)
}

// nodeLeft counts a node out, while columns still hold it.
func (k *incrementalCounts) removeNode(slot framework.Slot) {
	for _, set := range k.podSets {
		set.growTo(slot)
		for _, numbers := range set.byTopology {
			numbers.removeNode(slot, set.byNode.BySlot[slot])
		}
		set.byNode.BySlot[slot] = 0
	}
	k.groups.countNode(k.columns, slot, -1, func(*podSetCounts) {})
	k.terms.countNode(k.columns, slot, -1)
}

// shift counts a pod on the node in slot in, or out when by is -1.
func (k *incrementalCounts) countPod(slot framework.Slot, pod *framework.PodInfo, by int32) {
	for _, set := range k.groups.countPod(slot, pod, by) {
		set.growTo(slot)
		set.byNode.BySlot[slot] += by
		for _, numbers := range set.byTopology {
			if numbers.inScope[slot] {
				numbers.Add(numbers.Domains.BySlot()[slot], int64(by))
			}
		}
	}
	k.terms.countPod(k.columns, slot, pod, int64(by))
}
