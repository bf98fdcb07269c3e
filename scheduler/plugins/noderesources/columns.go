package noderesources

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework/counts"
)

// column identifies the column of a resource. It is looked up once, not for each node.
type column uint8

const (
	// columnNone stands for a resource that the columns do not hold.
	columnNone column = iota
	columnCPU
	columnNonZeroCPU
	columnMemory
	columnNonZeroMemory
	columnEphemeralStorage
)

// columnOf returns the column of a resource; nonZeroRequests selects the columns with
// default requests.
func columnOf(name v1.ResourceName, nonZeroRequests bool) column {
	switch {
	case name == v1.ResourceCPU && nonZeroRequests:
		return columnNonZeroCPU
	case name == v1.ResourceCPU:
		return columnCPU
	case name == v1.ResourceMemory && nonZeroRequests:
		return columnNonZeroMemory
	case name == v1.ResourceMemory:
		return columnMemory
	case name == v1.ResourceEphemeralStorage:
		return columnEphemeralStorage
	}
	return columnNone
}

// amounts returns the allocatable and the requested amount in a row.
func (c column) amounts(row *counts.Row) (allocatable, requested int64) {
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

// nodeResources holds the allocatable and the requested amount of each scored resource
// on one node.
type nodeResources [maxInlineResources]struct{ allocatable, requested int64 }

// read copies the amounts from a row. It reports whether they are the same as before.
// Many nodes have the same amounts as the node before them, for example because both
// are empty, and need not be scored again.
func (h *nodeResources) read(row *counts.Row, resources *scoredResources) (same bool) {
	if resources.cpuAndMemoryOnly {
		return h.readCPUAndMemory(row, resources.nonZeroRequests)
	}
	same = true
	for i := range resources.specs {
		allocatable, requested := resources.specs[i].column.amounts(row)
		if at := &h[i]; at.allocatable != allocatable || at.requested != requested {
			at.allocatable, at.requested, same = allocatable, requested, false
		}
	}
	return same
}

// readCPUAndMemory is read for cpuAndMemoryOnly, without looking up the column of each
// resource.
func (h *nodeResources) readCPUAndMemory(row *counts.Row, nonZeroRequests bool) (same bool) {
	cpu, memory := row.RequestedCPU, row.RequestedMemory
	if nonZeroRequests {
		cpu, memory = row.NonZeroCPU, row.NonZeroMemory
	}
	if h[0].requested == cpu && h[1].requested == memory && h[0].allocatable == row.AllocatableCPU && h[1].allocatable == row.AllocatableMemory {
		return true
	}
	h[0].allocatable, h[0].requested, h[1].allocatable, h[1].requested = row.AllocatableCPU, cpu, row.AllocatableMemory, memory
	return false
}

// allInColumns reports whether the columns hold all scored resources and there are at
// most maxInlineResources.
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
