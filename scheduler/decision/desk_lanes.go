package decision

import (
	"container/heap"
	"slices"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// The lanes that slips wait in, in the order in which they are served; outdated leaves
// each tenth turn to the others, and leaving takes turns with firsts, since each that is
// written has to go again.
const (
	outdated = iota // objects that say why a pod waits which is bound
	firsts          // pods that wait and were not explained yet
	leaving         // other objects that are to go
	updates         // pods that were explained otherwise
	records         // pods that are bound and were not explained
	lanes
)

// room bounds the lanes. Objects that are to go need no bound: they are there.
// Of records no more could be written before they would have to go.
var room = [lanes]int{outdated: 1_200, firsts: 20_000, updates: 20_000, records: 1_200}

// ticket is a slip's place in a lane.
type ticket struct {
	slip  *slip
	lane  int
	index int
	// due is when it may be served, order who comes first of those.
	due   time.Time
	order uint64

	// explanation is what is to be written, for reasons; nil when the object is
	// to go.
	explanation *Explanation
	reasons     uint64
}

// lane is a heap of tickets, the next one first.
type lane []*ticket

func (l lane) Len() int { return len(l) }

func (l lane) Less(i, j int) bool {
	if c := l[i].due.Compare(l[j].due); c != 0 {
		return c < 0
	}
	return l[i].order < l[j].order
}

func (l lane) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push is for container/heap.
func (l *lane) Push(x any) {
	t := x.(*ticket)
	t.index = len(*l)
	*l = append(*l, t)
}

// Pop is for container/heap.
func (l *lane) Pop() any {
	last := (*l)[len(*l)-1]
	*l = slices.Delete(*l, len(*l)-1, len(*l))
	last.index = -1
	return last
}

// queue puts t in line.
func (d *Desk) queue(t *ticket) *ticket {
	if t.order == 0 {
		d.orders++
		t.order = d.orders
	}
	heap.Push(&d.lanes[t.lane], t)
	explaining.Set(float64(d.len()))
	return t
}

// unqueue takes t, which may be nil, out of its line.
func (d *Desk) unqueue(t *ticket) {
	if t != nil && t.index >= 0 {
		heap.Remove(&d.lanes[t.lane], t.index)
		explaining.Set(float64(d.len()))
	}
}

// len is how much is to be done.
func (d *Desk) len() (n int) {
	for i := range d.lanes {
		n += len(d.lanes[i])
	}
	return n
}

// laneFor is where an explanation with that result waits, and from when on it
// may be written; s may be nil.
func (d *Desk) laneFor(s *slip, e *Explanation) (int, time.Time) {
	now := d.now()
	switch {
	case s != nil && s.stands && s.owner == e.UID && e.Status.Result == v1alpha1.ResultBound:
		return outdated, now
	case s != nil && s.stands && s.owner == e.UID:
		if next := s.at.Add(updateEvery); next.After(now) && !fault.UpdatedAtOnce {
			return updates, next
		}
		return updates, now
	case e.Status.Result == v1alpha1.ResultBound:
		return records, now
	}
	return firsts, now
}
