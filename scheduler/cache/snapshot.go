package cache

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/framework/counts"
	"github.com/berthdev/berth/scheduler/framework/podclass"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Snapshot is the cluster state that plugins see. It changes in
// Cache.UpdateSnapshot and Cache.UpdateBetweenAttempts only.
type Snapshot struct {
	nodes    map[string]*nodeState
	nodeTree *nodeTree
	groups   *podgroups.Store
	// images are the images of all nodes, by image name.
	images map[string]*fwk.ImageStateSummary
	// imageEpoch increases with every change of images.
	imageEpoch int64

	// list holds every node in order, and slots their slots. Both are rebuilt
	// when nodes are added or removed; as in kube-scheduler, not when only the
	// zone of a node changes.
	list        []fwk.NodeInfo
	slots       []counts.Slot
	listedNodes int
	// order are the names of the nodes in list. changedSince says that updateBetween was
	// called since the last attempt, which had attemptOrder.
	order, attemptOrder []string
	changedSince        bool
	// withAffinity and withRequiredAntiAffinity are built when a plugin asks.
	withAffinity, withRequiredAntiAffinity []fwk.NodeInfo
	affinityListsValid                     bool
	affinityListsMu                        sync.Mutex // guards the three fields above

	// checksum is that of list while checksumValid is set.
	versions      ResourceVersions
	checksum      uint32
	checksumValid bool

	// mu is held while the snapshot is updated, and while a plugin whose call
	// may be abandoned, or a reader outside the scheduling loop, reads it.
	// readByAbandonedCall says that an abandoned call has read the snapshot.
	mu                  sync.Mutex
	readByAbandonedCall bool

	// listerChanges increases when an object changes that plugins read through
	// listers.
	listerChanges uint64
	// changes increases with every change.
	changes uint64

	columns     *counts.Columns
	freeSlots   []counts.Slot
	incremental *incrementalCounts
	useScan     bool         // incremental is not used
	touched     []*nodeState // by the current deltas

	// mutated is nil outside a session of mutations.
	mutated *mutations
}

// noSlot is the slot of a node that is not listed.
const noSlot counts.Slot = -1

// nodeState is a NodeInfo with the bookkeeping of the snapshot.
type nodeState struct {
	*framework.NodeInfo
	treeNode
	imageEpoch int64
	listed     bool
	// slot is the node's slot in the columns while the node is listed. counted
	// says that the columns and the counts include its pods.
	slot    counts.Slot
	counted bool
	touched bool
	// changedSince says that updateBetween changed the node since the last attempt.
	changedSince bool
}

func newSnapshot(groups *podgroups.Store) *Snapshot {
	s := &Snapshot{
		nodes:    map[string]*nodeState{},
		nodeTree: newNodeTree(),
		groups:   groups,
		images:   map[string]*fwk.ImageStateSummary{},
		columns:  counts.NewColumns(),
	}
	s.incremental = newIncrementalCounts(s)
	return s
}

// Len returns the number of nodes.
func (s *Snapshot) Len() int { return len(s.list) }

// Nodes returns all nodes in the order in which scheduling tries them. The caller
// must not change the slice.
func (s *Snapshot) Nodes() []fwk.NodeInfo { return s.list }

// Slots returns the slots of Nodes. The caller must not change the slice.
func (s *Snapshot) Slots() []counts.Slot { return s.slots }

// Columns returns the nodes by slot.
func (s *Snapshot) Columns() *counts.Columns { return s.columns }

// ListerChanges increases whenever an object changes that plugins read through
// listers.
func (s *Snapshot) ListerChanges() uint64 { return s.listerChanges }

// Changes increases with every change but those of nominations.
func (s *Snapshot) Changes() uint64 { return s.changes }

// SelectorLabelKeys returns the label keys that selectors of affinity terms of
// assigned pods name. Keys are never removed. Callers add the keys of other
// selectors that they know.
func (s *Snapshot) SelectorLabelKeys() *podclass.LabelKeys { return &s.incremental.terms.labelKeys }

// HasIncrementalCounts reports whether Counts returns incremental counts, not
// scans.
func (s *Snapshot) HasIncrementalCounts() bool { return !s.useScan }

// Node returns a node, nil when there is none of that name.
func (s *Snapshot) Node(name string) *framework.NodeInfo {
	if n, ok := s.nodes[name]; ok && n.Node() != nil {
		return n.NodeInfo
	}
	return nil
}

// Slot returns the slot of a node; ok is false when there is none of that name.
func (s *Snapshot) Slot(name string) (counts.Slot, bool) {
	if n, ok := s.nodes[name]; ok && n.slot != noSlot && n.Node() != nil {
		return n.slot, true
	}
	return noSlot, false
}

// rebuildNodeList lists the nodes in the given order, which must name each node
// once, and forgets removed nodes without pods.
func (s *Snapshot) rebuildNodeList(names []string) {
	for name, n := range s.nodes {
		n.listed = n.Node() != nil
		if !n.listed {
			s.releaseSlot(n)
		}
		if !n.listed && len(n.GetPods()) == 0 {
			delete(s.nodes, name)
		}
	}
	s.order = names
	s.list, s.slots = make([]fwk.NodeInfo, 0, len(names)), make([]counts.Slot, 0, len(names))
	for _, name := range names {
		n := s.nodes[name]
		s.addToColumns(n)
		s.list, s.slots = append(s.list, n.NodeInfo), append(s.slots, n.slot)
	}
	s.listedNodes = len(s.list)
	s.affinityListsValid, s.checksumValid = false, false
}

// addToColumns gives a listed node a slot, if it has none, and adds its pods to
// the counts.
func (s *Snapshot) addToColumns(n *nodeState) {
	if n.counted {
		return
	}
	if n.slot == noSlot {
		if last := len(s.freeSlots) - 1; last >= 0 {
			n.slot, s.freeSlots = s.freeSlots[last], s.freeSlots[:last]
		} else {
			n.slot = counts.Slot(len(s.columns.Nodes))
		}
	}
	s.columns.SetNode(n.slot, n.NodeInfo)
	s.incremental.addNode(n.slot)
	n.counted = true
}

// removeFromColumns subtracts a node and its pods from the counts. The node keeps
// its slot until it is no longer listed.
func (s *Snapshot) removeFromColumns(n *nodeState) {
	if n.counted {
		s.incremental.removeNode(n.slot)
		s.columns.SetNode(n.slot, nil)
		n.counted = false
	}
}

// releaseSlot frees the slot of a node that is no longer listed.
func (s *Snapshot) releaseSlot(n *nodeState) {
	if n.slot == noSlot {
		return
	}
	s.removeFromColumns(n)
	s.freeSlots = append(s.freeSlots, n.slot)
	n.slot = noSlot
}

// buildAffinityLists builds the lists of nodes that have pods with affinity, when
// they are not valid. Most plugins use Counts instead.
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
