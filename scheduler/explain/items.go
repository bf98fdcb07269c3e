package explain

import (
	"container/heap"
	"slices"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// The kinds of items, in the order in which they are handled. Outdated items leave each
// tenth task to the others, and deletions alternate with first explanations, since each
// object that is written has to be deleted again.
const (
	outdatedItems = iota // objects that explain a pod that is bound by now
	firstItems           // pending pods without an explanation so far
	deletionItems        // other objects to delete
	updateItems          // pending pods whose explanation changed
	boundItems           // bound pods, where the profile explains all
	itemKinds
)

// capacity bounds the number of items of a kind. Deletions need no bound, since each
// concerns an existing object. No more records of bound pods are kept than can be written
// within boundRetention.
var capacity = [itemKinds]int{outdatedItems: 1_200, firstItems: 20_000, updateItems: 20_000, boundItems: 1_200}

// item is a pending write or deletion of one object.
type item struct {
	record *podRecord
	kind   int
	index  int
	// due is when the item may be handled. Items with the same due are handled in the order
	// of sequence.
	due      time.Time
	sequence uint64

	// explanation is the content to write; nil for a deletion. reasons is its hash.
	explanation *decision.Explanation
	reasons     uint64
}

// itemHeap is a heap of items by due and sequence.
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

// Push implements heap.Interface.
func (l *itemHeap) Push(x any) {
	it := x.(*item)
	it.index = len(*l)
	*l = append(*l, it)
}

// Pop implements heap.Interface.
func (l *itemHeap) Pop() any {
	last := (*l)[len(*l)-1]
	*l = slices.Delete(*l, len(*l)-1, len(*l))
	last.index = -1
	return last
}

// push adds an item to the heap of its kind.
func (q *Queue) push(it *item) *item {
	if it.sequence == 0 {
		q.lastSequence++
		it.sequence = q.lastSequence
	}
	heap.Push(&q.heaps[it.kind], it)
	explanationsWaiting.Set(float64(q.len()))
	return it
}

// remove removes an item, which may be nil, from its heap.
func (q *Queue) remove(it *item) {
	if it != nil && it.index >= 0 {
		heap.Remove(&q.heaps[it.kind], it.index)
		explanationsWaiting.Set(float64(q.len()))
	}
}

// len returns the number of items.
func (q *Queue) len() (n int) {
	for i := range q.heaps {
		n += len(q.heaps[i])
	}
	return n
}

// kindOf returns the kind of the item for an explanation, and when it may be written. The
// record may be nil.
func (q *Queue) kindOf(r *podRecord, e *decision.Explanation) (int, time.Time) {
	now := q.now()
	switch {
	case r != nil && r.objectExists && r.owner == e.UID && e.Status.Result == v1alpha1.ResultBound:
		return outdatedItems, now
	case r != nil && r.objectExists && r.owner == e.UID:
		if next := r.writtenAt.Add(minUpdateInterval); next.After(now) {
			return updateItems, next
		}
		return updateItems, now
	case e.Status.Result == v1alpha1.ResultBound:
		return boundItems, now
	case isOfGatedGroup(e):
		return firstItems, now.Add(gatedGroupDelay)
	}
	return firstItems, now
}

// isOfGatedGroup reports whether e is about a pod that is gated, and scheduled with a group.
func isOfGatedGroup(e *decision.Explanation) bool {
	return e.Status.Result == v1alpha1.ResultGated && e.Status.Group != nil
}
