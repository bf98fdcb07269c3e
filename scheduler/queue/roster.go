package queue

import (
	"container/list"

	"github.com/berthdev/berth/scheduler/fault"
)

// sliceOfPods is the size of a slice where Options do not say.
const sliceOfPods = 32

// roster are the pods of each profile, in a ring: who is looked at goes to the
// end.
type roster map[string]*list.List

func (r roster) add(p *Pod) {
	if r[p.profile] == nil {
		r[p.profile] = list.New()
	}
	p.seat = r[p.profile].PushBack(p)
}

func (r roster) remove(p *Pod) {
	if r[p.profile].Remove(p.seat); r[p.profile].Len() == 0 {
		delete(r, p.profile)
	}
}

// next are the n pods whose turn it is; fewer where there are fewer.
func (r roster) next(profile string, n int) []*Pod {
	ring := r[profile]
	if ring == nil {
		return nil
	}
	pods := make([]*Pod, min(n, ring.Len()))
	for i := range pods {
		pods[i] = ring.Front().Value.(*Pod)
		ring.MoveToBack(ring.Front())
	}
	return pods
}

// inSlices looks at each pod that a profile has now, some at a time, so that
// the loop goes on in between. look is called with the lock held; after, once
// for each slice, without. Who else goes round meanwhile helps: each of us
// takes as many steps as there were pods.
func (q *Queue) inSlices(profile string, look func(*Pod), after func()) {
	q.mu.Lock()
	left, size := 0, q.slice
	if ring := q.roster[profile]; ring != nil {
		left = ring.Len()
	}
	q.mu.Unlock()
	if fault.SliceTooLarge {
		size *= 100
	}
	for ; left > 0; left -= size {
		q.mu.Lock()
		for _, p := range q.roster.next(profile, min(left, size)) {
			look(p)
		}
		q.mu.Unlock()
		after()
		q.yield()
	}
}
