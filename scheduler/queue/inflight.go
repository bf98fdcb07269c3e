package queue

import (
	"container/list"
)

// inFlightLog records events for the pods that have no place at the moment:
// pods in flight, and pods that are being requeued. The list holds one marker for
// each such pod and the events, in the order in which they came. The events
// behind a pod's marker are those that the pod has yet to react to. The log starts
// at the oldest marker and is empty when there is none.
type inFlightLog struct {
	entries *list.List
	markers int
}

func newInFlightLog() inFlightLog { return inFlightLog{entries: list.New()} }

// begin starts recording events for p.
func (f *inFlightLog) begin(p *Entity) {
	p.marker, p.activated = f.entries.PushBack(p), false
	f.markers++
}

// end stops recording events for p, and drops the events that no other pod needs.
func (f *inFlightLog) end(p *Entity) {
	if p.marker == nil {
		return
	}
	f.entries.Remove(p.marker)
	p.marker = nil
	f.markers--
	// Events before the first marker are older than all markers.
	for e := f.entries.Front(); e != nil; e = f.entries.Front() {
		if _, isEvent := e.Value.(event); !isEvent {
			return
		}
		f.entries.Remove(e)
	}
}

// record appends an event, unless no pod is in flight.
func (f *inFlightLog) record(e event) {
	if f.markers > 0 {
		f.entries.PushBack(e)
	}
}

// takeEvents returns the events since p's marker and moves the marker behind
// them.
func (f *inFlightLog) takeEvents(p *Entity) []event {
	if p.marker == nil {
		return nil
	}
	var events []event
	for e := p.marker.Next(); e != nil; e = e.Next() {
		if ev, isEvent := e.Value.(event); isEvent {
			events = append(events, ev)
		}
	}
	if len(events) > 0 {
		f.end(p)
		f.begin(p)
	}
	return events
}
