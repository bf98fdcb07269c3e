package queue

import (
	"container/list"

	"github.com/berthdev/berth/scheduler/fault"
)

// flights is the log of events for pods whose next place is not decided yet.
// Markers of such pods and events stand in one list in the order in which they
// came: what stands behind a marker is what its pod must still hear of. The
// log is as long as its oldest marker is old, and empty without one.
type flights struct {
	log     *list.List
	markers int
}

func newFlights() flights { return flights{log: list.New()} }

// begin starts keeping events for p.
func (f *flights) begin(p *Pod) {
	p.flight = f.log.PushBack(p)
	f.markers++
}

// end stops keeping events for p, and drops those that nobody waits for.
func (f *flights) end(p *Pod) {
	if p.flight == nil {
		return
	}
	f.log.Remove(p.flight)
	p.flight = nil
	f.markers--
	// What stands before the first marker is behind every pod that listens.
	for e := f.log.Front(); e != nil; e = f.log.Front() {
		if _, isEvent := e.Value.(event); !isEvent {
			return
		}
		f.log.Remove(e)
	}
}

// record keeps an event if anybody is in flight.
func (f *flights) record(e event) {
	if f.markers > 0 && !fault.EventInFlightDropped {
		f.log.PushBack(e)
	}
}

// hear returns what happened since p's marker and moves the marker behind it.
func (f *flights) hear(p *Pod) []event {
	if p.flight == nil {
		return nil
	}
	var heard []event
	for e := p.flight.Next(); e != nil; e = e.Next() {
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
