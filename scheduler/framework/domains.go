package framework

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/fault"
)

// NoDomain is the domain of a node that is in none.
const NoDomain int32 = 0

// Domains are the domains of one topology: the values that nodes have under
// one label. Each has a number, so that what is known by domain is an array.
// A number goes back when the last node leaves the domain, and may be given to
// another one.
type Domains struct {
	// Key is the label's.
	Key string
	// Unlabelled puts nodes without the label into the domain "" instead of
	// into none.
	IncludeUnlabelled bool

	// of is the domain of the node in each slot.
	bySlot []int32
	ids    map[string]int32
	names  []string // by domain; names[NoDomain] is not used
	nodes  []int32  // how many nodes are in each domain
	free   []int32

	// turn is the current turn of the Columns that keep d, nil for Domains that
	// stay as they are; used is the turn in which d was used last.
	queries   *uint64
	lastQuery uint64
	// pins is how many holders need d to stay.
	pins int
	// dropped says that d is no longer kept and does not move any more.
	dropped bool
}

func newDomains(key string, unlabelled bool) *Domains {
	return &Domains{Key: key, IncludeUnlabelled: unlabelled, ids: map[string]int32{}, names: []string{""}, nodes: []int32{0}}
}

// Of returns the domain of the node in each slot. The slice is d's own.
func (d *Domains) BySlot() []int32 { return d.bySlot }

// ID returns the number of a domain, NoDomain when no node is in it.
func (d *Domains) ID(name string) int32 { return d.ids[name] }

// Len is one more than the highest number of a domain so far.
func (d *Domains) Len() int { return len(d.names) }

// Present is how many domains have a node.
func (d *Domains) NumWithNodes() int { return len(d.ids) }

// Current reports whether d still moves with the snapshot, and counts as a use.
func (d *Domains) Current() bool {
	if d.queries != nil {
		d.lastQuery = *d.queries
	}
	return !d.dropped
}

// Pin keeps d until Unpin was called as often.
func (d *Domains) Pin() { d.pins++ }

// Unpin takes one Pin back.
func (d *Domains) Unpin() { d.pins-- }

// empty reports whether no node has a value under the key.
func (d *Domains) isEmpty() bool {
	if len(d.ids) == 1 && d.IncludeUnlabelled {
		return d.ids[""] != NoDomain
	}
	return len(d.ids) == 0
}

// reach makes place for slot.
func (d *Domains) grow(slot Slot) {
	for len(d.bySlot) <= int(slot) {
		d.bySlot = append(d.bySlot, NoDomain)
	}
}

// put moves the node in slot to where its labels say; a nil node leaves.
func (d *Domains) setNode(slot Slot, node *v1.Node) {
	d.grow(slot)
	before, next := d.bySlot[slot], NoDomain
	if node != nil {
		name, ok := node.Labels[d.Key]
		if before != NoDomain && d.names[before] == name && (ok || d.IncludeUnlabelled) {
			return
		}
		if ok || d.IncludeUnlabelled {
			next = d.addNode(name)
		}
	}
	d.bySlot[slot] = next
	d.removeNode(before)
}

func (d *Domains) addNode(name string) int32 {
	id, known := d.ids[name]
	if !known {
		if last := len(d.free) - 1; last >= 0 {
			id, d.free = d.free[last], d.free[:last]
			d.names[id] = name
		} else {
			id = int32(len(d.names))
			d.names, d.nodes = append(d.names, name), append(d.nodes, 0)
		}
		d.ids[name] = id
	}
	d.nodes[id]++
	return id
}

func (d *Domains) removeNode(id int32) {
	if id == NoDomain {
		return
	}
	if d.nodes[id]--; d.nodes[id] == 0 {
		delete(d.ids, d.names[id])
		d.names[id] = ""
		d.free = append(d.free, id)
	}
}

// maxTopologies bounds how many Domains are kept at a time.
const maxTopologies = 64

// topologies are the Domains that Columns keep. When there are too many, the
// least recently used one that is not pinned gives way to the next.
type topologies struct {
	domains []*Domains
	// none has no domains: it is for topology keys that no node carries.
	absent *Domains
	// turn grows with every question about pods or domains. It is shared with
	// all that is kept, which notes the turn in which it was used last.
	queries *uint64

	// OnReclaim, when it is not nil, is called with the Domains that are no longer
	// kept, before others take their place.
	OnEvict func(*Domains)
	// OnFull, when it is not nil, is called when all Domains are pinned. It may
	// unpin some.
	OnFull func()
}

func newTopologies() topologies {
	return topologies{absent: newDomains("", false), queries: new(uint64)}
}

// NextTurn begins a new question and returns its number. Everything that is used
// from now on counts as used later than everything before.
func (t *topologies) NextQuery() uint64 {
	*t.queries++
	return *t.queries
}

// Turns is where Columns keep the number of the current question.
func (t *topologies) QueryCounter() *uint64 { return t.queries }

// put moves the node in slot to where its labels say, in every topology.
func (t *topologies) setNode(slot Slot, node *v1.Node) {
	for _, d := range t.domains {
		d.setNode(slot, node)
	}
	t.absent.grow(slot)
}

// Domains returns the domains of a topology. They are current until others need
// their place, see Domains.Current. It returns nil when all places are taken by
// pinned ones.
func (c *Columns) Domains(key string, unlabelled bool) *Domains {
	turn := c.NextQuery()
	for _, d := range c.domains {
		if d.Key == key && d.IncludeUnlabelled == unlabelled {
			d.lastQuery = turn
			return d
		}
	}
	if len(c.domains) >= maxTopologies && !c.evict() {
		return nil
	}
	d := newDomains(key, unlabelled)
	d.queries, d.lastQuery = c.queries, turn
	for slot, node := range c.Nodes {
		d.setNode(Slot(slot), node.Node())
	}
	c.domains = append(c.domains, d)
	return d
}

// NoDomains returns the domains of a topology key that no node carries.
func (c *Columns) AbsentDomains() *Domains { return c.absent }

// Carried reports whether any node has a label with this key. It takes time
// proportional to the nodes.
func (c *Columns) HasLabelKey(key string) bool {
	for _, node := range c.Nodes {
		if node.Node() == nil {
			continue
		}
		if _, carried := node.Node().Labels[key]; carried {
			return true
		}
	}
	return false
}

// reclaim stops keeping one of the Domains. It reports false when all are
// pinned.
func (t *topologies) evict() bool {
	if fault.TopologiesNeverReclaimed {
		return false
	}
	at := t.evictionCandidate()
	if at < 0 && t.OnFull != nil {
		t.OnFull()
		at = t.evictionCandidate()
	}
	if at < 0 {
		return false
	}
	d := t.domains[at]
	t.domains = slices.Delete(t.domains, at, at+1)
	d.dropped = true
	if t.OnEvict != nil {
		t.OnEvict(d)
	}
	return true
}

// leastUsed is the index of the Domains that give way next, -1 when all are
// pinned. Keys that no node carries go first: they cost little to make again, and
// anybody who may create pods can name as many as they like.
func (t *topologies) evictionCandidate() int {
	least := -1
	for at, d := range t.domains {
		if d.pins > 0 {
			continue
		}
		if least < 0 || d.evictedBefore(t.domains[least]) {
			least = at
		}
	}
	return least
}

// before reports whether d gives way before other.
func (d *Domains) evictedBefore(other *Domains) bool {
	if d.isEmpty() != other.isEmpty() && !fault.AbsentTopologiesTakePlaces {
		return d.isEmpty()
	}
	return d.lastQuery < other.lastQuery
}
