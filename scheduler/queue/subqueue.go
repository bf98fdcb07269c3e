package queue

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"time"
)

// backoffWindow is the granularity of backoff: expirations are rounded down to
// it, so that pods whose backoff ends in the same window are tried by priority and
// not in the order of their failures.
const backoffWindow = time.Second

// backoffWindows rounds times down to the start of their windows, which are counted from the
// first. time.Truncate would drop the monotonic clock: while the wall clock is set back, no backoff
// would end.
type backoffWindows struct{ first time.Time }

func newBackoffWindows(now time.Time) backoffWindows {
	return backoffWindows{first: now.Add(now.Truncate(backoffWindow).Sub(now))}
}

func (w backoffWindows) startOf(t time.Time) time.Time {
	return w.first.Add(t.Sub(w.first).Truncate(backoffWindow))
}

// subQueue holds the pods of all profiles that have the same sort: one heap of
// active pods, one of pods that back off after a refusal, and one of pods that
// back off after an error. Errors have a heap of their own because an idle queue
// pops early from the first, but must not press an API server that fails.
type subQueue struct {
	sort string
	// less is the QueueSort plugin's Less of one of the profiles that have this sort
	// or, while their pods are leaving, had it.
	less   func(a, b *Entity) bool
	active *podHeap
	// leaving are the rules of profiles that have another sort now, or none, while
	// their pods are being moved out.
	leaving []*Rules
	// throttled holds, by profile, further active pods; see popActive.
	throttled    map[string]*podHeap
	backoff      *podHeap
	errorBackoff *podHeap
}

func newSubQueue(sort string) *subQueue {
	l := &subQueue{sort: sort}
	l.active = newHeap(func(a, b *Entity) bool { return l.less(a, b) })
	l.backoff = newHeap(func(a, b *Entity) bool {
		if !a.backoffUntil.Equal(b.backoffUntil) {
			return a.backoffUntil.Before(b.backoffUntil)
		}
		return l.less(a, b)
	})
	l.errorBackoff = newHeap(func(a, b *Entity) bool { return a.backoffUntil.Before(b.backoffUntil) })
	return l
}

// subQueueOf returns the sub-queue of a sort, nil when no profile has the sort.
// The caller holds q.mu.
func (q *Queue) subQueueOf(sort string) *subQueue {
	for _, l := range q.subQueues {
		if l.sort == sort {
			return l
		}
	}
	return nil
}

// syncSubQueues makes a sub-queue for each sort of the served profiles. It drops
// one whose profiles are gone once its pods have left. The Less of each is that of
// a served profile or, until its pods have left, of a profile that is leaving: the
// plugins of the others may be closed. The caller holds q.mu.
func (q *Queue) syncSubQueues() {
	sorts := map[string]*Rules{}
	for _, name := range slices.Sorted(maps.Keys(q.rules)) {
		if rules := q.rules[name]; sorts[rules.Sort] == nil {
			sorts[rules.Sort] = rules
		}
	}
	q.subQueues = slices.DeleteFunc(q.subQueues, func(l *subQueue) bool { return sorts[l.sort] == nil && l.empty() })
	for _, l := range q.subQueues {
		if sorts[l.sort] == nil && len(l.leaving) > 0 {
			l.useRules(l.leaving[0])
		}
	}
	for _, sort := range slices.Sorted(maps.Keys(sorts)) {
		l := q.subQueueOf(sort)
		if l == nil {
			l = newSubQueue(sort)
			q.subQueues = append(q.subQueues, l)
		}
		l.useRules(sorts[sort])
	}
	q.lastPopped = 0
}

func (l *subQueue) useRules(rules *Rules) {
	less := rules.Less
	l.less = func(a, b *Entity) bool { return less(a, b) }
}

func (l *subQueue) empty() bool {
	n := l.active.Len() + l.backoff.Len() + l.errorBackoff.Len()
	for _, h := range l.throttled {
		n += h.Len()
	}
	return n == 0
}

// addLeaving records that the pods of a profile with these rules are about to be
// visited, and may leave the sub-queue. The caller calls removeLeaving after the
// visit. The caller holds q.mu.
func (q *Queue) addLeaving(rules *Rules) {
	if rules != nil {
		if l := q.subQueueOf(rules.Sort); l != nil {
			l.leaving = append(l.leaving, rules)
		}
	}
}

// removeLeaving records that all pods which addLeaving announced were visited.
func (q *Queue) removeLeaving(rules *Rules) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.subQueues {
		l.leaving = slices.DeleteFunc(l.leaving, func(r *Rules) bool { return r == rules })
	}
	q.syncSubQueues() // drops a sub-queue that is empty now
}

// backoffHeap returns the heap in which p backs off. A group is never popped before its
// backoff ends, as in kube-scheduler: an attempt of it takes the loop's time for long.
func (l *subQueue) backoffHeap(p *Entity) *podHeap {
	if p.podGroup != nil || len(p.rejectors) == 0 && len(p.pending) == 0 {
		return l.errorBackoff
	}
	return l.backoff
}

// backoffExpiration returns when p may be tried again; zero when it need not wait.
// The wait starts at InitialBackoff, doubles with each refusal (or, while errors
func (r *Rules) backoffExpiration(p *Entity, windows backoffWindows) time.Time {
	count := p.unschedulableCount
	if p.consecutiveErrors > 0 {
		count = p.consecutiveErrors
	}
	if count == 0 || r.MaxBackoff == 0 {
		return time.Time{}
	}
	wait := r.maxBackoff(p)
	if shift := count - 1; shift < 63 && r.InitialBackoff <= wait>>shift {
		wait = r.InitialBackoff << shift
	}
	return windows.startOf(p.timestamp.Add(wait))
}

// maxBackoff returns the longest wait of p: for a group MaxBackoff times the square root of
// the number of its pods at the end of its attempt.
func (r *Rules) maxBackoff(p *Entity) time.Duration {
	if p.podGroup == nil || p.podGroup.attemptSize < 2 {
		return r.MaxBackoff
	}
	return time.Duration(float64(r.MaxBackoff) * math.Sqrt(float64(p.podGroup.attemptSize)))
}

// isBackingOff reports whether p's backoff is not over at now.
func (q *Queue) isBackingOff(p *Entity, now time.Time) bool {
	return !p.backoffUntil.Before(q.windows.startOf(now))
}

// podHeap is a heap of pods. Each pod knows its index, so that any of them can be
// removed or moved in O(log n).
type podHeap struct {
	pods []*Entity
	less func(a, b *Entity) bool
}

var _ heap.Interface = &podHeap{}

func newHeap(less func(a, b *Entity) bool) *podHeap { return &podHeap{less: less} }

func (h *podHeap) Len() int { return len(h.pods) }

func (h *podHeap) Less(i, j int) bool { return h.less(h.pods[i], h.pods[j]) }

func (h *podHeap) Swap(i, j int) {
	h.pods[i], h.pods[j] = h.pods[j], h.pods[i]
	h.pods[i].index, h.pods[j].index = i, j
}

// Push is for container/heap only; use add.
func (h *podHeap) Push(x any) {
	p := x.(*Entity)
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

func (h *podHeap) add(p *Entity) { heap.Push(h, p) }

// popFirst removes and returns the first pod, nil when the heap is empty.
func (h *podHeap) popFirst() *Entity {
	if len(h.pods) == 0 {
		return nil
	}
	return heap.Pop(h).(*Entity)
}

// peek returns the first pod without removing it, nil when the heap is empty.
func (h *podHeap) peek() *Entity {
	if len(h.pods) == 0 {
		return nil
	}
	return h.pods[0]
}

// fix restores the order after p changed in a way that less may see.
func (h *podHeap) fix(p *Entity) { heap.Fix(h, p.index) }

// remove removes p, which must be in this heap.
func (h *podHeap) remove(p *Entity) { heap.Remove(h, p.index) }
