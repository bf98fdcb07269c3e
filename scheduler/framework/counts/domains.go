package counts

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// NoDomain is the domain of a node that belongs to none.
const NoDomain int32 = 0

// Domains are the domains of one topology: the values of one node label. Each
// has a number, so that data by domain is an array. When the last node leaves a
// domain its number is reused.
type Domains struct {
	// Key is the label key.
	Key string
	// IncludeUnlabelled puts nodes without the label into the domain "".
	// Without it they have no domain.
	IncludeUnlabelled bool

	// bySlot is the domain of the node in each slot.
	bySlot []int32
	ids    map[string]int32
	names  []string // by domain; names[NoDomain] is not used
	nodes  []int32  // by domain: number of nodes
	free   []int32

	// queries is the query counter of the Columns, nil for domains that are not
	// updated; lastQuery is the number of the last query that used d.
	queries   *uint64
	lastQuery uint64
	// pins is the number of Pin calls without Unpin.
	pins int
	// dropped says that d is no longer updated.
	dropped bool
}

func newDomains(key string, unlabelled bool) *Domains {
	return &Domains{Key: key, IncludeUnlabelled: unlabelled, ids: map[string]int32{}, names: []string{""}, nodes: []int32{0}}
}

// BySlot returns the domain of the node in each slot. The caller must not
// change the slice.
func (d *Domains) BySlot() []int32 { return d.bySlot }

// ID returns the number of a domain, NoDomain if no node is in it.
func (d *Domains) ID(name string) int32 { return d.ids[name] }

// Len is the highest number of a domain so far, plus one.
func (d *Domains) Len() int { return len(d.names) }

// NumWithNodes is the number of domains with a node.
func (d *Domains) NumWithNodes() int { return len(d.ids) }

// Current reports whether d is still updated with the snapshot, and counts as a
// use of d.
func (d *Domains) Current() bool {
	if d.queries != nil {
		d.lastQuery = *d.queries
	}
	return !d.dropped
}

// Pin prevents the eviction of d until Unpin is called as often.
func (d *Domains) Pin() { d.pins++ }

// Unpin takes one Pin back.
func (d *Domains) Unpin() { d.pins-- }

// isEmpty reports whether no node has the label.
func (d *Domains) isEmpty() bool {
	if len(d.ids) == 1 && d.IncludeUnlabelled {
		return d.ids[""] != NoDomain
	}
	return len(d.ids) == 0
}

// grow extends d to include slot.
func (d *Domains) grow(slot Slot) {
	for len(d.bySlot) <= int(slot) {
		d.bySlot = append(d.bySlot, NoDomain)
	}
}

// setNode updates the domain of slot from node's labels; nil removes the node.
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

// maxTopologies bounds the number of Domains that Columns update.
const maxTopologies = 64

// topologies are the Domains of Columns. If there are too many, the least
// recently used one that is not pinned is evicted.
type topologies struct {
	domains []*Domains
	// absent has no domain. It serves topology keys that no node has.
	absent *Domains
	// queries is the number of the current query. Domains and counts share the
	// pointer and store the number when they are used.
	queries *uint64

	// OnEvict is called with evicted Domains before others take their place;
	// may be nil.
	OnEvict func(*Domains)
	// OnFull is called when all Domains are pinned, and may unpin some; may be
	// nil.
	OnFull func()
}

func newTopologies() topologies {
	return topologies{absent: newDomains("", false), queries: new(uint64)}
}

// NextQuery begins a query and returns its number, which orders uses by time.
func (t *topologies) NextQuery() uint64 {
	*t.queries++
	return *t.queries
}

// QueryCounter returns a pointer to the number of the current query.
func (t *topologies) QueryCounter() *uint64 { return t.queries }

// setNode updates slot in every topology.
func (t *topologies) setNode(slot Slot, node *v1.Node) {
	for _, d := range t.domains {
		d.setNode(slot, node)
	}
	t.absent.grow(slot)
}

// Domains returns the domains of a topology, or nil if the maximum number is
// reached and all are pinned. The caller calls Domains.Current before it uses
// them again, since a later query may evict them.
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
	if key == v1.LabelHostname {
		d.ids = make(map[string]int32, len(c.Nodes)) // each node is a domain
	}
	d.bySlot = make([]int32, 0, len(c.Nodes))
	d.queries, d.lastQuery = c.queries, turn
	for slot, node := range c.Nodes {
		d.setNode(Slot(slot), node.Node())
	}
	c.domains = append(c.domains, d)
	return d
}

// AbsentDomains returns domains without nodes, for a topology key that no node
// has.
func (c *Columns) AbsentDomains() *Domains { return c.absent }

// HasLabelKey reports whether any node has a label with this key. It visits all
// nodes.
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

// evict drops the least recently used Domains. It reports false if all are
// pinned.
func (t *topologies) evict() bool {
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

// evictionCandidate is the index of the Domains to evict next, -1 if all are
// pinned. Keys that no node has come first: they are cheap to build again, and
// everybody who can create pods can name any number of them.
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

// evictedBefore reports whether d is evicted before other.
func (d *Domains) evictedBefore(other *Domains) bool {
	if d.isEmpty() != other.isEmpty() {
		return d.isEmpty()
	}
	return d.lastQuery < other.lastQuery
}
