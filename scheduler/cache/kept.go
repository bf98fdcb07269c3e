package cache

import (
	"github.com/berthdev/berth/scheduler/framework"
)

// kept answers from counts that are made when they are first asked for and
// move with the snapshot from then on. A bound pod costs the counts that it
// matters to. Its dumb twin is scan, which answers what kept cannot.
type kept struct {
	scan
	columns *framework.Columns
	sets    map[string]*keptSet
	shapes  shapes
	terms   keptTerms
	// numbers is how many numbers all sets have together.
	numbers int
}

var _ framework.KeptCounts = &kept{}

// keptSet is a set of pods with its numbers, by node and by domain.
type keptSet struct {
	*framework.PodSet
	nodes   *framework.NodeNumbers
	numbers map[string]*keptNumbers
}

// keptNumbers are the numbers of a set of pods in one topology.
type keptNumbers struct {
	*framework.Numbers
	scope *framework.Scope
	// in says which nodes count, by slot.
	in []bool
}

func newKept(s *Snapshot) *kept {
	k := &kept{scan: scan{s}, columns: s.columns, sets: map[string]*keptSet{}}
	k.shapes.forget(nil)
	k.terms.forget()
	k.columns.OnReclaim, k.columns.OnFull = k.reclaimed, k.terms.compact
	return k
}

// Columns returns the snapshot's.
func (k *kept) Columns() *framework.Columns { return k.columns }

// Pods answers each query with numbers that move with the snapshot. They are
// those of all domains, whatever the query leaves out.
func (k *kept) Pods(queries ...framework.PodQuery) []*framework.Tally {
	turn := k.columns.NextTurn()
	tallies := make([]*framework.Tally, len(queries))
	for i := range queries {
		numbers := k.set(queries[i].Pods).in(k, &queries[i])
		if numbers == nil {
			return k.scan.Pods(queries...)
		}
		numbers.Turn = turn
		tallies[i] = framework.TallyOf(numbers.Numbers)
	}
	return tallies
}

// ByNode counts pods by node.
func (k *kept) ByNode(pods *framework.PodSet) *framework.NodeNumbers {
	k.columns.NextTurn()
	return k.set(pods).nodes
}

// set returns the counted set that is the same as pods.
func (k *kept) set(pods *framework.PodSet) *keptSet {
	key := pods.Key()
	set, known := k.sets[key]
	if !known {
		k.evictSets()
		set = &keptSet{PodSet: pods, nodes: framework.NewNodeNumbers(k.columns), numbers: map[string]*keptNumbers{}}
		k.sets[key] = set
		k.shapes.add(set, k.columns)
	}
	set.nodes.Turn = *k.columns.Turns()
	return set
}

func (s *keptSet) reach(slot framework.Slot) {
	for len(s.nodes.By) <= int(slot) {
		s.nodes.By = append(s.nodes.By, 0)
	}
}

// in returns the set's numbers in the topology and the scope of q, nil when
// too many topologies are in use.
func (s *keptSet) in(k *kept, q *framework.PodQuery) *keptNumbers {
	key := q.Scope.Key() + "\x00" + q.TopologyKey
	if q.Unlabelled {
		key += "\x00"
	}
	if numbers, known := s.numbers[key]; known {
		numbers.Domains.Current() // which counts as a use
		return numbers
	}
	k.evictNumbers(s)
	domains := k.columns.Domains(q.TopologyKey, q.Unlabelled)
	if domains == nil {
		return nil
	}
	numbers := &keptNumbers{Numbers: framework.NewNumbers(domains), scope: q.Scope}
	for _, slot := range k.slots {
		numbers.nodeCame(slot, k.columns, s.nodes.By[slot])
	}
	s.numbers[key] = numbers
	k.numbers++
	return numbers
}

// nodeCame counts the pods of a node in.
func (n *keptNumbers) nodeCame(slot framework.Slot, columns *framework.Columns, pods int32) {
	for len(n.in) <= int(slot) {
		n.in = append(n.in, false)
	}
	domain := n.Domains.Of()[slot]
	if n.in[slot] = domain != framework.NoDomain && n.scope.Holds(columns.Nodes[slot].Node()); n.in[slot] {
		n.List(domain, 1)
		n.Shift(domain, int64(pods))
	}
}

// nodeLeft counts the pods of a node out.
func (n *keptNumbers) nodeLeft(slot framework.Slot, pods int32) {
	if int(slot) < len(n.in) && n.in[slot] {
		n.in[slot] = false
		n.Shift(n.Domains.Of()[slot], -int64(pods))
		n.List(n.Domains.Of()[slot], -1)
	}
}

// nodeCame counts a node in that got its slot, its labels or its taints.
func (k *kept) nodeCame(slot framework.Slot) {
	for _, set := range k.sets {
		set.reach(slot)
		set.nodes.By[slot] = 0
	}
	k.shapes.node(k.columns, slot, 1, func(set *keptSet) { set.nodes.By[slot]++ })
	for _, set := range k.sets {
		for _, numbers := range set.numbers {
			numbers.nodeCame(slot, k.columns, set.nodes.By[slot])
		}
	}
	k.terms.nodeCame(k.columns, slot)
}

// nodeLeft counts a node out, while columns still hold it.
func (k *kept) nodeLeft(slot framework.Slot) {
	for _, set := range k.sets {
		set.reach(slot)
		for _, numbers := range set.numbers {
			numbers.nodeLeft(slot, set.nodes.By[slot])
		}
		set.nodes.By[slot] = 0
	}
	k.shapes.node(k.columns, slot, -1, func(*keptSet) {})
	k.terms.node(k.columns, slot, -1)
}

// shift counts a pod on the node in slot in, or out when by is -1.
func (k *kept) shift(slot framework.Slot, pod *framework.PodInfo, by int32) {
	for _, set := range k.shapes.shift(slot, pod, by) {
		set.reach(slot)
		set.nodes.By[slot] += by
		for _, numbers := range set.numbers {
			if numbers.in[slot] {
				numbers.Shift(numbers.Domains.Of()[slot], int64(by))
			}
		}
	}
	k.terms.pod(k.columns, slot, pod, int64(by))
}
