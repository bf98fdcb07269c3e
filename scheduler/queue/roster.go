package queue

import (
	"container/list"

	"github.com/berthdev/berth/scheduler/fault"
)

// sliceOfPods is the size of a slice where Options do not say.
const defaultSliceSize = 32

// roster are the pods of each profile, in the order in which they came.
type profileIndex struct {
	profiles map[string]*profilePods
	// came is how many pods were added so far: the number of the newest one.
	lastNumber uint64
}

// profilePods are the pods of one profile. The list holds them by their number, and
// in between a *podWalk for each walk that is under way: it keeps its place whatever is
// added or removed.
type profilePods struct {
	list  *list.List
	count int
}

// podWalk is one way through the pods that a profile had when it began.
type podIterator struct {
	profile  *profilePods
	position *list.Element
	// until is the number of the newest pod that there was.
	last uint64
}

func (r *profileIndex) add(p *Pod) {
	of := r.profiles[p.profile]
	if of == nil {
		of = &profilePods{list: list.New()}
		r.profiles[p.profile] = of
	}
	of.count++
	r.lastNumber++
	p.element, p.number = of.list.PushBack(p), r.lastNumber
}

func (r *profileIndex) remove(p *Pod) {
	of := r.profiles[p.profile]
	of.list.Remove(p.element)
	if of.count--; of.count == 0 {
		delete(r.profiles, p.profile)
	}
}

// walk begins a walk; nil where the profile has no pods.
func (r *profileIndex) iterate(profile string) *podIterator {
	of := r.profiles[profile]
	if of == nil {
		return nil
	}
	w := &podIterator{profile: of, last: r.lastNumber}
	w.position = of.list.PushFront(w)
	if fault.WalksShareTheirPlace {
		for e := of.list.Back(); e != w.position; e = e.Prev() {
			if _, isWalk := e.Value.(*podIterator); isWalk {
				of.list.MoveAfter(w.position, e)
				break
			}
		}
	}
	return w
}

// next returns the next pods, n at most; none when the walk is over. Pods that were
// removed are passed over, and pods that were added since it began.
func (w *podIterator) next(n int) []*Pod {
	var pods []*Pod
	for len(pods) < n && w.position != nil {
		e := w.position.Next()
		p, isPod := (*Pod)(nil), false
		if e != nil {
			p, isPod = e.Value.(*Pod)
		}
		if e == nil || isPod && p.number > w.last {
			w.profile.list.Remove(w.position)
			w.position = nil
			break
		}
		w.profile.list.MoveAfter(w.position, e)
		if isPod {
			pods = append(pods, p)
		}
	}
	return pods
}

// inSlices looks at each pod that a profile has now and still has when its turn
// comes, some at a time, so that the loop goes on in between. look is called with the
// lock held; after, once for each slice, without. Any number of walks through the
// pods of one profile may be under way: none makes another skip a pod.
func (q *Queue) forEachInSlices(profile string, look func(*Pod), after func()) {
	q.mu.Lock()
	w, size := q.podsByProfile.iterate(profile), q.sliceSize
	q.mu.Unlock()
	if fault.SliceTooLarge {
		size *= 100
	}
	for w != nil && w.position != nil {
		q.mu.Lock()
		for _, p := range w.next(size) {
			look(p)
		}
		q.mu.Unlock()
		after()
		q.yield()
	}
}
