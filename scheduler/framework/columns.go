package framework

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Slot is a node's place in Columns. A node keeps its slot while it is there;
// then another one may get it.
type Slot = int32

// Row is those numbers of a node that most verdicts are made from. Amounts of
// cpu are in millicores, all others in bytes.
type Row struct {
	// Offered is node.status.allocatable, Taken what the pods request, Scored
	// what they are scored with.
	AllocatableCPU, AllocatableMemory, AllocatableStorage int64
	RequestedCPU, RequestedMemory, RequestedStorage       int64
	NonZeroCPU, NonZeroMemory                             int64
	// Room is how many pods the node takes, Pods how many it has.
	AllowedPods, Pods int64
	// Images is how many names of images the node knows.
	Images int32
	// Cordoned is spec.unschedulable.
	Cordoned bool
}

// Columns is what stands in NodeInfos, once more, by slot: so that a plugin
// can judge many nodes without a call for each. They move when the snapshot
// does.
type Columns struct {
	// Nodes holds the NodeInfo of each slot, nil where the slot is free.
	Nodes []*NodeInfo
	// Rows holds the numbers.
	Rows []Row
	// Versions holds what changes with every change to the node in a slot, and
	// does not come back within an era. It is never 0.
	Versions []uint32
	// Taints holds the number of each node's list of taints. Lists of the same
	// taints have the same number.
	Taints []int32
	// Era changes when versions or numbers of taints may come back.
	Era uint64

	topologies

	taintLists [][]v1.Taint
	taintIDs   map[string]int32
	// advised is how many nodes have a taint that only advises against them,
	// tainted how many have any, and cordoned how many are unschedulable.
	preferNoSchedule, tainted, cordoned int
}

// spareTaintLists is how many lists of taints that no node has any more may be
// kept, besides as many as there are nodes.
const spareTaintLists = 1024

// NewColumns returns the columns of nodes, each in the slot of its index.
func NewColumns(nodes ...*NodeInfo) *Columns {
	c := &Columns{topologies: newTopologies()}
	c.resetTaints()
	for slot, node := range nodes {
		c.SetNode(Slot(slot), node)
	}
	return c
}

// Put makes node the one in slot; nil frees the slot.
func (c *Columns) SetNode(slot Slot, node *NodeInfo) {
	for len(c.Nodes) <= int(slot) {
		c.Nodes, c.Rows = append(c.Nodes, nil), append(c.Rows, Row{})
		c.Versions, c.Taints = append(c.Versions, 0), append(c.Taints, 0)
	}
	c.Nodes[slot] = node
	c.UpdateLabelsAndTaints(slot)
	c.UpdateResources(slot)
}

// Count takes over the numbers of the node in slot.
func (c *Columns) UpdateResources(slot Slot) {
	if c.Versions[slot]++; c.Versions[slot] == 0 {
		c.Versions[slot] = 1 // 0 is no version
		c.Era++
	}
	var row Row
	if node := c.Nodes[slot]; node.Node() != nil {
		row = Row{
			AllocatableCPU: node.Allocatable.MilliCPU, AllocatableMemory: node.Allocatable.Memory,
			AllocatableStorage: node.Allocatable.EphemeralStorage,
			RequestedCPU:       node.Requested.MilliCPU, RequestedMemory: node.Requested.Memory,
			RequestedStorage: node.Requested.EphemeralStorage,
			NonZeroCPU:       node.NonZeroRequested.MilliCPU, NonZeroMemory: node.NonZeroRequested.Memory,
			AllowedPods: int64(node.Allocatable.AllowedPodNumber), Pods: int64(len(node.pods)),
			Images: int32(len(node.ImageStates)), Cordoned: node.node.Spec.Unschedulable,
		}
	}
	c.cordoned += boolToInt(row.Cordoned) - boolToInt(c.Rows[slot].Cordoned)
	c.Rows[slot] = row
}

// Describe takes over the labels and the taints of the node in slot. Count
// comes after it.
func (c *Columns) UpdateLabelsAndTaints(slot Slot) {
	node := c.Nodes[slot].Node()
	c.topologies.setNode(slot, node)
	before := c.taintLists[c.Taints[slot]]
	var next []v1.Taint
	if node != nil {
		next = node.Spec.Taints
	}
	c.preferNoSchedule += preferNoScheduleCount(next) - preferNoScheduleCount(before)
	c.tainted += boolToInt(len(next) > 0) - boolToInt(len(before) > 0)
	c.Taints[slot] = c.taintID(next)
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// TaintList returns the taints that have a number.
func (c *Columns) TaintList(id int32) []v1.Taint { return c.taintLists[id] }

// Advised reports whether any node has a taint that advises against it, that
// is one with the effect PreferNoSchedule.
func (c *Columns) HasPreferNoScheduleTaints() bool { return c.preferNoSchedule > 0 }

// Tainted reports whether any node has a taint.
func (c *Columns) HasTaints() bool { return c.tainted > 0 }

// Cordoned reports whether any node is unschedulable.
func (c *Columns) HasCordonedNodes() bool { return c.cordoned > 0 }

func preferNoScheduleCount(taints []v1.Taint) int {
	return boolToInt(slices.ContainsFunc(taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule }))
}

// taintID numbers a list of taints. Where many lists are gone, numbers are
// given anew.
func (c *Columns) taintID(taints []v1.Taint) int32 {
	if len(taints) == 0 {
		return 0
	}
	var text strings.Builder
	for i := range taints {
		t := &taints[i]
		// None of these may contain a zero.
		text.WriteString(t.Key + "\x00" + t.Value + "\x00" + string(t.Effect) + "\x00")
	}
	id, known := c.taintIDs[text.String()]
	if known {
		return id
	}
	if len(c.taintLists) > 2*len(c.Nodes)+spareTaintLists {
		c.renumberTaints()
	}
	id = int32(len(c.taintLists))
	c.taintLists = append(c.taintLists, taints)
	c.taintIDs[text.String()] = id
	return id
}

func (c *Columns) resetTaints() {
	c.taintLists, c.taintIDs = [][]v1.Taint{nil}, map[string]int32{}
}

// renumberTaints drops the lists that no node has any more.
func (c *Columns) renumberTaints() {
	c.Era++
	lists := c.taintLists
	c.resetTaints()
	for slot, id := range c.Taints {
		c.Taints[slot] = c.taintID(lists[id])
	}
}
