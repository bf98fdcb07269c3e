package queue

import (
	"container/list"

	"github.com/berthdev/berth/scheduler/fault"
)

// flights is the log of events for pods whose next place is not decided yet.
// Markers of such pods and events stand in one list in the order in which they
// came: what stands behind a marker is what its pod must still hear of. The
// log is as long as its oldest marker is old, and empty without one.
type inFlightLog struct {
	entries *list.List
	markers int
}

func newInFlightLog() inFlightLog { return inFlightLog{entries: list.New()} }

// begin starts keeping events for p.
func (f *inFlightLog) begin(p *Pod) {
	p.marker = f.entries.PushBack(p)
	f.markers++
}

// end stops keeping events for p, and drops those that nobody waits for.
func (f *inFlightLog) end(p *Pod) {
	if p.marker == nil {
		return
	}
	f.entries.Remove(p.marker)
	p.marker = nil
	f.markers--
	// What stands before the first marker is behind every pod that listens.
	for e := f.entries.Front(); e != nil; e = f.entries.Front() {
		if _, isEvent := e.Value.(event); !isEvent {
			return
		}
		f.entries.Remove(e)
	}
}

// record keeps an event if anybody is in flight.
func (f *inFlightLog) record(e event) {
	if f.markers > 0 && !fault.EventInFlightDropped {
		f.entries.PushBack(e)
	}
}

// hear returns what happened since p's marker and moves the marker behind it.
func (f *inFlightLog) takeEvents(p *Pod) []event {
	if p.marker == nil {
		return nil
	}
	var heard []event
	for e := p.marker.Next(); e != nil; e = e.Next() {
		if ev, isEvent := e.Value.(event); isEvent {
			heard = append(heard, ev)
		}
	}
	if len(heard) > 0 {
		f.end(p)
		f.begin(p)
	}
	return heard
}
