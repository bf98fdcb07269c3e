package queue

import "container/heap"

// podHeap is a heap of pods. Each pod knows its index, so that any of them can be
// removed or moved in O(log n).
type podHeap struct {
	pods []*Pod
	less func(a, b *Pod) bool
}

var _ heap.Interface = &podHeap{}

func newHeap(less func(a, b *Pod) bool) *podHeap { return &podHeap{less: less} }

func (h *podHeap) Len() int           { return len(h.pods) }
func (h *podHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }
func (h *podHeap) Swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	h.pods[i].index, h.pods[j].index = i, j
}

// Push is for container/heap only; use add.
func (h *podHeap) Push(x any) {
	p := x.(*Pod)
	p.index, p.heap = len(h.pods), h
	h.pods = append(h.pods, p)
}

// Pop is for container/heap only; use popFirst.
func (h *podHeap) Pop() any {
	last := len(h.pods) - 1
	p := h.pods[last]
	h.pods[last] = nil
	h.pods = h.pods[:last]
	p.index, p.heap = -1, nil
	return p
}

func (h *podHeap) add(p *Pod) { heap.Push(h, p) }

// popFirst removes and returns the first pod, nil when the heap is empty.
func (h *podHeap) popFirst() *Pod {
	if len(h.pods) == 0 {
		return nil
	}
	return heap.Pop(h).(*Pod)
}

// peek returns the first pod without removing it, nil when the heap is empty.
func (h *podHeap) peek() *Pod {
	if len(h.pods) == 0 {
		return nil
	}
	return h.pods[0]
}

// fix restores the order after p changed in a way that less may see.
func (h *podHeap) fix(p *Pod) { heap.Fix(h, p.index) }

// remove removes p, which must be in this heap.
func (h *podHeap) remove(p *Pod) { heap.Remove(h, p.index) }
