package cache

import (
	"cmp"
	"slices"

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
	// turn grows with every question, so that what was not asked for the
	// longest is known.
	turn uint64
}

var _ framework.KeptCounts = &kept{}

// maxSets bounds the sets of pods that are counted.
const maxSets = 4096

// keptSet is a set of pods with its numbers, by node and by domain.
type keptSet struct {
	*framework.PodSet
	nodes   framework.NodeNumbers
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
	return k
}

// Columns returns the snapshot's.
func (k *kept) Columns() *framework.Columns { return k.columns }

// Pods answers each query with numbers that move with the snapshot. They are
// those of all domains, whatever the query leaves out.
func (k *kept) Pods(queries ...framework.PodQuery) []*framework.Tally {
	k.turn++
	tallies := make([]*framework.Tally, len(queries))
	for i := range queries {
		numbers := k.set(queries[i].Pods).in(k, &queries[i])
		if numbers == nil {
			return k.scan.Pods(queries...)
		}
		numbers.Turn = k.turn
		tallies[i] = framework.TallyOf(numbers.Numbers)
	}
	return tallies
}

// ByNode counts pods by node.
func (k *kept) ByNode(pods *framework.PodSet) *framework.NodeNumbers {
	k.turn++
	return &k.set(pods).nodes
}

// set returns the counted set that is the same as pods.
func (k *kept) set(pods *framework.PodSet) *keptSet {
	key := pods.Key()
	set, known := k.sets[key]
	if !known {
		k.makeRoom()
		set = &keptSet{PodSet: pods, numbers: map[string]*keptNumbers{}}
		k.sets[key] = set
		k.shapes.add(set, k.columns)
	}
	set.nodes.Turn = k.turn
	return set
}

// makeRoom drops the sets that were not asked for the longest, when there are
// too many.
func (k *kept) makeRoom() {
	if len(k.sets) < maxSets {
		return
	}
	type old struct {
		key string
		set *keptSet
	}
	var all []old
	for key, set := range k.sets {
		all = append(all, old{key, set})
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Compare(a.set.used(), b.set.used()) })
	for _, o := range all[:len(all)/4] {
		o.set.drop()
		delete(k.sets, o.key)
	}
	k.shapes.forget(k.sets)
	k.shapes.survey(k.columns)
}

// used is when the set was last asked for.
func (s *keptSet) used() uint64 {
	turn := s.nodes.Turn
	for _, numbers := range s.numbers {
		turn = max(turn, numbers.Turn)
	}
	return turn
}

func (s *keptSet) drop() {
	s.nodes.Dropped = true
	for _, numbers := range s.numbers {
		numbers.Drop()
	}
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
		return numbers
	}
	domains := k.columns.Domains(q.TopologyKey, q.Unlabelled)
	if domains == nil {
		return nil
	}
	numbers := &keptNumbers{Numbers: framework.NewNumbers(domains), scope: q.Scope}
	for _, slot := range k.slots {
		numbers.nodeCame(slot, k.columns, s.nodes.By[slot])
	}
	s.numbers[key] = numbers
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
	k.shapes.node(k.columns, slot, 1)
	for _, set := range k.sets {
		set.reach(slot)
		set.nodes.By[slot] = int32(set.On(k.columns.Nodes[slot]))
		for _, numbers := range set.numbers {
			numbers.nodeCame(slot, k.columns, set.nodes.By[slot])
		}
	}
	k.terms.node(k.columns, slot, 1)
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
	k.shapes.node(k.columns, slot, -1)
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
