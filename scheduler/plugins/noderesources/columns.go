package noderesources

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// column is where columns hold a resource: found once, not for each node.
type column uint8

const (
	// inNone is of a resource that columns do not hold.
	columnNone column = iota
	columnCPU
	columnNonZeroCPU
	columnMemory
	columnNonZeroMemory
	columnEphemeralStorage
)

// columnOf is where a resource stands; assume takes what pods are scored with
// for what they request.
func columnOf(name v1.ResourceName, assume bool) column {
	switch {
	case name == v1.ResourceCPU && assume:
		return columnNonZeroCPU
	case name == v1.ResourceCPU:
		return columnCPU
	case name == v1.ResourceMemory && assume:
		return columnNonZeroMemory
	case name == v1.ResourceMemory:
		return columnMemory
	case name == v1.ResourceEphemeralStorage:
		return columnEphemeralStorage
	}
	return columnNone
}

// in is what a node offers of the resource, and what is taken of it.
func (c column) amounts(row *framework.Row) (offered, taken int64) {
	switch c {
	case columnCPU:
		return row.AllocatableCPU, row.RequestedCPU
	case columnNonZeroCPU:
		return row.AllocatableCPU, row.NonZeroCPU
	case columnMemory:
		return row.AllocatableMemory, row.RequestedMemory
	case columnNonZeroMemory:
		return row.AllocatableMemory, row.NonZeroMemory
	case columnEphemeralStorage:
		return row.AllocatableStorage, row.RequestedStorage
	}
	return 0, 0
}

// holding is what one node offers of each resource, and what is taken of it.
type nodeResources [maxInlineResources]struct{ offered, taken int64 }

// read makes h what a row says of the resources. It reports whether h was that
// before: nodes stand in no order, and yet many are like the one before them, if
// only because they are empty; those need not be scored again.
func (h *nodeResources) read(row *framework.Row, resources *scoredResources) (same bool) {
	if resources.cpuAndMemoryOnly {
		return h.readCPUAndMemory(row, resources.nonZeroRequests)
	}
	same = true
	for i := range resources.specs {
		offered, taken := resources.specs[i].column.amounts(row)
		if at := &h[i]; at.offered != offered || at.taken != taken {
			at.offered, at.taken, same = offered, taken, false
		}
	}
	return same
}

// readUsual is read for the usual resources, without asking which column is meant.
func (h *nodeResources) readCPUAndMemory(row *framework.Row, assume bool) (same bool) {
	cpu, memory := row.RequestedCPU, row.RequestedMemory
	if assume {
		cpu, memory = row.NonZeroCPU, row.NonZeroMemory
	}
	if h[0].taken == cpu && h[1].taken == memory && h[0].offered == row.AllocatableCPU && h[1].offered == row.AllocatableMemory {
		return true
	}
	h[0].offered, h[0].taken, h[1].offered, h[1].taken = row.AllocatableCPU, cpu, row.AllocatableMemory, memory
	return false
}

// inColumns reports whether columns hold all of the resources, and they are few
// enough.
func (s scoredResources) allInColumns() bool {
	if len(s.specs) > maxInlineResources {
		return false
	}
	for i := range s.specs {
		if s.specs[i].column == columnNone {
			return false
		}
	}
	return true
}
