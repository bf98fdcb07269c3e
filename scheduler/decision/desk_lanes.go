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
	outdatedItems = iota // objects that say why a pod waits which is bound
	firstItems           // pods that wait and were not explained yet
	deletionItems        // other objects that are to go
	updateItems          // pods that were explained otherwise
	boundItems           // pods that are bound and were not explained
	itemKinds
)

// room bounds the lanes. Objects that are to go need no bound: they are there.
// Of records no more could be written before they would have to go.
var capacity = [itemKinds]int{outdatedItems: 1_200, firstItems: 20_000, updateItems: 20_000, boundItems: 1_200}

// ticket is a slip's place in a lane.
type item struct {
	record *podRecord
	kind   int
	index  int
	// due is when it may be served, order who comes first of those.
	due      time.Time
	sequence uint64

	// explanation is what is to be written, for reasons; nil when the object is
	// to go.
	explanation *Explanation
	reasons     uint64
}

// lane is a heap of tickets, the next one first.
type itemHeap []*item

func (l itemHeap) Len() int { return len(l) }

func (l itemHeap) Less(i, j int) bool {
	if c := l[i].due.Compare(l[j].due); c != 0 {
		return c < 0
	}
	return l[i].sequence < l[j].sequence
}

func (l itemHeap) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

// Push is for container/heap.
func (l *itemHeap) Push(x any) {
	t := x.(*item)
	t.index = len(*l)
	*l = append(*l, t)
}

// Pop is for container/heap.
func (l *itemHeap) Pop() any {
	last := (*l)[len(*l)-1]
	*l = slices.Delete(*l, len(*l)-1, len(*l))
	last.index = -1
	return last
}

// queue puts t in line.
func (d *ExplanationQueue) push(t *item) *item {
	if t.sequence == 0 {
		d.lastSequence++
		t.sequence = d.lastSequence
	}
	heap.Push(&d.heaps[t.kind], t)
	explanationsWaiting.Set(float64(d.len()))
	return t
}

// unqueue takes t, which may be nil, out of its line.
func (d *ExplanationQueue) remove(t *item) {
	if t != nil && t.index >= 0 {
		heap.Remove(&d.heaps[t.kind], t.index)
		explanationsWaiting.Set(float64(d.len()))
	}
}

// len is how much is to be done.
func (d *ExplanationQueue) len() (n int) {
	for i := range d.heaps {
		n += len(d.heaps[i])
	}
	return n
}

// laneFor is where an explanation with that result waits, and from when on it
// may be written; s may be nil.
func (d *ExplanationQueue) kindOf(s *podRecord, e *Explanation) (int, time.Time) {
	now := d.now()
	switch {
	case s != nil && s.objectExists && s.owner == e.UID && e.Status.Result == v1alpha1.ResultBound:
		return outdatedItems, now
	case s != nil && s.objectExists && s.owner == e.UID:
		if next := s.writtenAt.Add(minUpdateInterval); next.After(now) && !fault.UpdatedAtOnce {
			return updateItems, next
		}
		return updateItems, now
	case e.Status.Result == v1alpha1.ResultBound:
		return boundItems, now
	}
	return firstItems, now
}
