package queue

import (
	"container/list"
)

// defaultSliceSize is the default of Options.SliceSize.
const defaultSliceSize = 32

// profileIndex holds the pods of each profile in the order in which they were
// added.
type profileIndex struct {
	profiles map[string]*profilePods
	// lastNumber is the number of the pod that was added last.
	lastNumber uint64
}

// profilePods are the pods of one profile. The list holds the pods by number, and
// among them one *podIterator for each iteration under way, which thus keeps its
// position when pods are added or removed.
type profilePods struct {
	list  *list.List
	count int
}

// podIterator iterates over the pods that a profile had when the iteration began.
type podIterator struct {
	profile  *profilePods
	position *list.Element
	// last is the number of the newest pod that is part of the iteration.
	last uint64
}

func (x *profileIndex) add(p *Entity) {
	pods := x.profiles[p.profile]
	if pods == nil {
		pods = &profilePods{list: list.New()}
		x.profiles[p.profile] = pods
	}
	pods.count++
	x.lastNumber++
	p.element, p.number = pods.list.PushBack(p), x.lastNumber
}

func (x *profileIndex) remove(p *Entity) {
	pods := x.profiles[p.profile]
	pods.list.Remove(p.element)
	if pods.count--; pods.count == 0 {
		delete(x.profiles, p.profile)
	}
}

// iterate begins an iteration; nil where the profile has no pods.
func (x *profileIndex) iterate(profile string) *podIterator {
	pods := x.profiles[profile]
	if pods == nil {
		return nil
	}
	it := &podIterator{profile: pods, last: x.lastNumber}
	it.position = pods.list.PushFront(it)
	return it
}

// next returns the next pods, n at most; none when the iteration is over. It skips
// pods that were removed, or added since the iteration began.
func (it *podIterator) next(n int) []*Entity {
	var pods []*Entity
	for len(pods) < n && it.position != nil {
		e := it.position.Next()
		p, isPod := (*Entity)(nil), false
		if e != nil {
			p, isPod = e.Value.(*Entity)
		}
		if e == nil || isPod && p.number > it.last {
			it.profile.list.Remove(it.position)
			it.position = nil
			break
		}
		it.profile.list.MoveAfter(it.position, e)
		if isPod {
			pods = append(pods, p)
		}
	}
	return pods
}

// forEachInSlices calls visit for each pod that a profile has now and still has
// when its slice comes. visit is called with q.mu held, afterSlice without it. The
// lock is released and the loop gets its turn between slices. Any number of
// iterations over one profile may be under way: none makes another skip a pod.
func (q *Queue) forEachInSlices(profile string, visit func(*Entity), afterSlice func()) {
	q.mu.Lock()
	it, size := q.podsByProfile.iterate(profile), q.sliceSize
	q.mu.Unlock()
	for it != nil && it.position != nil {
		q.mu.Lock()
		for _, p := range it.next(size) {
			visit(p)
		}
		q.mu.Unlock()
		afterSlice()
		q.yield()
	}
}
