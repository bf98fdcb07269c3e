package cache

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
)

// Snapshot is the cluster as plugins see it. It moves in Cache.Refresh only.
type Snapshot struct {
	nodes    map[string]*nodeState
	nodeTree *nodeTree
	// images are the images of all nodes, by name.
	images map[string]*fwk.ImageStateSummary
	// imageEpoch grows with every change to images.
	imageEpoch int64

	// list is every node in order, and slots the slots of the same; they are
	// made anew when nodes come or go. Like upstream's list it is not when a
	// node only changes its zone.
	list        []fwk.NodeInfo
	slots       []framework.Slot
	listedNodes int
	// withAffinity and withAnti are made when they are asked for.
	withAffinity, withRequiredAntiAffinity []fwk.NodeInfo
	affinityListsValid                     bool
	affinityListsMu                        sync.Mutex // guards sorted and what it is of

	// seen is what has been heard of, and sum that of the list; summed says that it
	// is made.
	versions      ResourceVersions
	checksum      uint32
	checksumValid bool

	// fence is held while the snapshot moves, and while plugins look at it whom
	// nobody may wait for. shown says that one did that is out.
	mu                  sync.Mutex
	readByAbandonedCall bool

	// moved grows when something changed that no node holds.
	listerChanges uint64
	// changes grows when anything changed.
	changes uint64

	columns     *framework.Columns
	freeSlots   []framework.Slot
	incremental *incrementalCounts
	useScan     bool         // kept is not used
	touched     []*nodeState // by the deltas that are being applied
}

// noSlot is the slot of a node that is not listed.
const noSlot framework.Slot = -1

// nodeState is a NodeInfo and what the snapshot remembers beside it.
type nodeState struct {
	*framework.NodeInfo
	name       string
	listed     bool
	imageEpoch int64
	// slot is the node's place in columns from when it is first listed until it
	// no longer is. counted says that its pods are counted there.
	slot    framework.Slot
	counted bool
	touched bool
}

func newSnapshot() *Snapshot {
	s := &Snapshot{
		nodes:    map[string]*nodeState{},
		nodeTree: newNodeTree(),
		images:   map[string]*fwk.ImageStateSummary{},
		columns:  framework.NewColumns(),
	}
	s.incremental = newIncrementalCounts(s)
	return s
}

// Len is the number of nodes.
func (s *Snapshot) Len() int { return len(s.list) }

// Nodes returns all nodes in the order in which they are tried. The slice is
// the snapshot's own.
func (s *Snapshot) Nodes() []fwk.NodeInfo { return s.list }

// Slots returns the slots of Nodes. The slice is the snapshot's own.
func (s *Snapshot) Slots() []framework.Slot { return s.slots }

// Columns returns the nodes by slot.
func (s *Snapshot) Columns() *framework.Columns { return s.columns }

// Moved grows whenever something changed that plugins read through listers.
func (s *Snapshot) ListerChanges() uint64 { return s.listerChanges }

// Changes grows whenever anything changed, but for nominations.
func (s *Snapshot) Changes() uint64 { return s.changes }

// Labels are the keys that selectors of placed pods' terms name. They only
// grow. Whoever knows of other selectors adds theirs.
func (s *Snapshot) SelectorLabelKeys() *framework.LabelKeys { return &s.incremental.terms.labelKeys }

// Keeps reports whether counts move with the snapshot.
func (s *Snapshot) HasIncrementalCounts() bool { return !s.useScan }

// Node returns one node, nil when there is none of that name.
func (s *Snapshot) Node(name string) *framework.NodeInfo {
	if n, ok := s.nodes[name]; ok && n.Node() != nil {
		return n.NodeInfo
	}
	return nil
}

// Slot returns the slot of a node, false when there is none of that name.
func (s *Snapshot) Slot(name string) (framework.Slot, bool) {
	if n, ok := s.nodes[name]; ok && n.slot != noSlot && n.Node() != nil {
		return n.slot, true
	}
	return noSlot, false
}

// relist makes the list of nodes anew and drops what is left of nodes that
// went.
func (s *Snapshot) rebuildNodeList() {
	for name, n := range s.nodes {
		n.listed = n.Node() != nil
		if !n.listed {
			s.releaseSlot(n)
		}
		if !n.listed && len(n.GetPods()) == 0 {
			delete(s.nodes, name)
		}
	}
	names := s.nodeTree.list()
	s.list, s.slots = make([]fwk.NodeInfo, 0, len(names)), make([]framework.Slot, 0, len(names))
	for _, name := range names {
		n := s.nodes[name]
		s.addToColumns(n)
		s.list, s.slots = append(s.list, n.NodeInfo), append(s.slots, n.slot)
	}
	s.listedNodes = len(s.list)
	s.affinityListsValid, s.checksumValid = false, false
}

// settle gives a listed node a slot, if it has none, and counts it in.
func (s *Snapshot) addToColumns(n *nodeState) {
	if n.counted {
		return
	}
	if n.slot == noSlot {
		if last := len(s.freeSlots) - 1; last >= 0 {
			n.slot, s.freeSlots = s.freeSlots[last], s.freeSlots[:last]
		} else {
			n.slot = framework.Slot(len(s.columns.Nodes))
		}
	}
	s.columns.SetNode(n.slot, n.NodeInfo)
	s.incremental.addNode(n.slot)
	n.counted = true
}

// leave counts a node out, which keeps its slot until it is no longer listed.
func (s *Snapshot) removeFromColumns(n *nodeState) {
	if n.counted {
		s.incremental.removeNode(n.slot)
		s.columns.SetNode(n.slot, nil)
		n.counted = false
	}
}

// vacate takes the slot of a node that is no longer listed.
func (s *Snapshot) releaseSlot(n *nodeState) {
	if n.slot == noSlot {
		return
	}
	s.removeFromColumns(n)
	s.freeSlots = append(s.freeSlots, n.slot)
	n.slot = noSlot
}

// sortOut makes the lists of nodes that hold pods with affinity. Most plugins
// ask the counts instead.
func (s *Snapshot) buildAffinityLists() {
	s.affinityListsMu.Lock()
	defer s.affinityListsMu.Unlock()
	if s.affinityListsValid {
		return
	}
	s.withAffinity, s.withRequiredAntiAffinity = nil, nil
	for _, n := range s.list {
		if len(n.GetPodsWithAffinity()) > 0 {
			s.withAffinity = append(s.withAffinity, n)
		}
		if len(n.GetPodsWithRequiredAntiAffinity()) > 0 {
			s.withRequiredAntiAffinity = append(s.withRequiredAntiAffinity, n)
		}
	}
	s.affinityListsValid = true
}
