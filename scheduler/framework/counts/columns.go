package counts

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// Slot is the index of a node in Columns. A node keeps its slot until it is
// deleted; then the slot is reused.
type Slot = int32

// Row is the numbers of one node that most plugins read. CPU is in millicores,
// everything else in bytes.
type Row struct {
	// Allocatable is node.status.allocatable, Requested the sum of the pods'
	// requests, NonZero that sum with defaults for containers without requests.
	AllocatableCPU, AllocatableMemory, AllocatableStorage int64
	RequestedCPU, RequestedMemory, RequestedStorage       int64
	NonZeroCPU, NonZeroMemory                             int64
	// AllowedPods is allocatable pods, Pods the number of pods on the node.
	AllowedPods, Pods int64
	// Images is the number of image names on the node.
	Images int32
	// Cordoned is spec.unschedulable.
	Cordoned bool
}

// Columns hold the contents of all NodeInfos of a snapshot in arrays by slot,
// so that a plugin can evaluate many nodes in one call. They change only in
// cache.UpdateSnapshot and are not safe for concurrent use with it.
type Columns struct {
	// Nodes holds the NodeInfo of each slot, nil for a free slot.
	Nodes []*framework.NodeInfo
	Rows  []Row
	// Versions holds the version of each slot. It changes with every change to
	// the node and is unique for the slot within an era. It is never 0.
	Versions []uint32
	// Taints holds an ID for each node's list of taints. Equal lists have the
	// same ID.
	Taints []int32
	// Era changes whenever versions or taint IDs may repeat.
	Era uint64

	topologies

	taintLists [][]v1.Taint
	taintIDs   map[string]int32
	// preferNoSchedule counts nodes with a PreferNoSchedule taint, tainted
	// nodes with any taint, cordoned unschedulable nodes.
	preferNoSchedule, tainted, cordoned int
}

// spareTaintLists is how many taint lists that no node has any more are kept,
// in addition to one per node.
const spareTaintLists = 1024

// NewColumns returns the columns of nodes, each node in the slot of its index.
func NewColumns(nodes ...*framework.NodeInfo) *Columns {
	c := &Columns{topologies: newTopologies()}
	c.resetTaints()
	for slot, node := range nodes {
		c.SetNode(Slot(slot), node)
	}
	return c
}

// SetNode puts node into slot; nil frees the slot.
func (c *Columns) SetNode(slot Slot, node *framework.NodeInfo) {
	for len(c.Nodes) <= int(slot) {
		c.Nodes, c.Rows = append(c.Nodes, nil), append(c.Rows, Row{})
		c.Versions, c.Taints = append(c.Versions, 0), append(c.Taints, 0)
	}
	c.Nodes[slot] = node
	c.UpdateLabelsAndTaints(slot)
	c.UpdateResources(slot)
}

// UpdateResources copies the numbers of the node in slot, and gives the slot a
// new version.
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
			AllowedPods: int64(node.Allocatable.AllowedPodNumber), Pods: int64(len(node.GetPods())),
			Images: int32(len(node.ImageStates)), Cordoned: node.Node().Spec.Unschedulable,
		}
	}
	c.cordoned += boolToInt(row.Cordoned) - boolToInt(c.Rows[slot].Cordoned)
	c.Rows[slot] = row
}

// UpdateLabelsAndTaints copies labels and taints of the node in slot. The
// caller calls UpdateResources afterwards.
func (c *Columns) UpdateLabelsAndTaints(slot Slot) {
	node := c.Nodes[slot].Node()
	c.topologies.setNode(slot, node)
	previous := c.taintLists[c.Taints[slot]]
	var next []v1.Taint
	if node != nil {
		next = node.Spec.Taints
	}
	c.preferNoSchedule += preferNoScheduleCount(next) - preferNoScheduleCount(previous)
	c.tainted += boolToInt(len(next) > 0) - boolToInt(len(previous) > 0)
	c.Taints[slot] = c.taintID(next)
}

func boolToInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// TaintList returns the taints with this ID.
func (c *Columns) TaintList(id int32) []v1.Taint { return c.taintLists[id] }

// HasPreferNoScheduleTaints reports whether any node has a taint with the
// effect PreferNoSchedule.
func (c *Columns) HasPreferNoScheduleTaints() bool { return c.preferNoSchedule > 0 }

// HasTaints reports whether any node has a taint.
func (c *Columns) HasTaints() bool { return c.tainted > 0 }

// HasCordonedNodes reports whether any node is unschedulable.
func (c *Columns) HasCordonedNodes() bool { return c.cordoned > 0 }

func preferNoScheduleCount(taints []v1.Taint) int {
	return boolToInt(slices.ContainsFunc(taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectPreferNoSchedule }))
}

// taintID returns the ID of a list of taints. It renumbers all lists when too
// many are unused.
func (c *Columns) taintID(taints []v1.Taint) int32 {
	if len(taints) == 0 {
		return 0
	}
	var text strings.Builder
	for i := range taints {
		t := &taints[i]
		// A zero byte occurs in none of these.
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

// renumberTaints drops the taint lists that no node has any more.
func (c *Columns) renumberTaints() {
	c.Era++
	lists := c.taintLists
	c.resetTaints()
	for slot, id := range c.Taints {
		c.Taints[slot] = c.taintID(lists[id])
	}
}
