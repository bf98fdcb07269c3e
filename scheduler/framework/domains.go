package framework

import v1 "k8s.io/api/core/v1"

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
