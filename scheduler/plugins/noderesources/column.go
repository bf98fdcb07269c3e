package noderesources

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// column is where columns hold a resource: found once, not for each node.
type column uint8

const (
	// inNone is of a resource that columns do not hold.
	inNone column = iota
	inCPU
	inScoredCPU
	inMemory
	inScoredMemory
	inStorage
)

// columnOf is where a resource stands; assume takes what pods are scored with
// for what they request.
func columnOf(name v1.ResourceName, assume bool) column {
	switch {
	case name == v1.ResourceCPU && assume:
		return inScoredCPU
	case name == v1.ResourceCPU:
		return inCPU
	case name == v1.ResourceMemory && assume:
		return inScoredMemory
	case name == v1.ResourceMemory:
		return inMemory
	case name == v1.ResourceEphemeralStorage:
		return inStorage
	}
	return inNone
}

// in is what a node offers of the resource, and what is taken of it.
func (c column) in(row *framework.Row) (offered, taken int64) {
	switch c {
	case inCPU:
		return row.OfferedCPU, row.TakenCPU
	case inScoredCPU:
		return row.OfferedCPU, row.ScoredCPU
	case inMemory:
		return row.OfferedMemory, row.TakenMemory
	case inScoredMemory:
		return row.OfferedMemory, row.ScoredMemory
	case inStorage:
		return row.OfferedStorage, row.TakenStorage
	}
	return 0, 0
}

// holding is what one node offers of each resource, and what is taken of it.
type holding [inlineShares]struct{ offered, taken int64 }

// read makes h what a row says of the resources. It reports whether h was that
// before: nodes stand in no order, and yet many are like the one before them, if
// only because they are empty; those need not be scored again.
func (h *holding) read(row *framework.Row, resources *scoredResources) (same bool) {
	if resources.usual {
		return h.readUsual(row, resources.assume)
	}
	same = true
	for i := range resources.specs {
		offered, taken := resources.specs[i].held.in(row)
		if at := &h[i]; at.offered != offered || at.taken != taken {
			at.offered, at.taken, same = offered, taken, false
		}
	}
	return same
}

// readUsual is read for the usual resources, without asking which column is meant.
func (h *holding) readUsual(row *framework.Row, assume bool) (same bool) {
	cpu, memory := row.TakenCPU, row.TakenMemory
	if assume {
		cpu, memory = row.ScoredCPU, row.ScoredMemory
	}
	if h[0].taken == cpu && h[1].taken == memory && h[0].offered == row.OfferedCPU && h[1].offered == row.OfferedMemory {
		return true
	}
	h[0].offered, h[0].taken, h[1].offered, h[1].taken = row.OfferedCPU, cpu, row.OfferedMemory, memory
	return false
}

// inColumns reports whether columns hold all of the resources, and they are few
// enough.
func (s scoredResources) inColumns() bool {
	if len(s.specs) > inlineShares {
		return false
	}
	for i := range s.specs {
		if s.specs[i].held == inNone {
			return false
		}
	}
	return true
}
