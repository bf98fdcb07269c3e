package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// randomHistory is one random history of calls on the queue and on the model.
type randomHistory struct {
	*testEnv
	rng          *rand.Rand
	model        *model
	attempts     []*Attempt
	gateClosed   bool // for every third pod
	holding      bool // every fourth pod is held
	earlierRules []Rules
	// depth is how many changes of profiles are under way.
	depth int
}

// TestTheQueueAgreesWithTheModel runs the same random histories on both and compares
// the place of every pod after each step.
func TestTheQueueAgreesWithTheModel(t *testing.T) {
	histories := 200
	if testing.Short() {
		histories = 50
	}
	for seed := range histories {
		t.Run(fmt.Sprintf("history %d", seed), func(t *testing.T) {
			w := &randomHistory{testEnv: newTestEnv(t), rng: rand.New(rand.NewPCG(uint64(seed), 1))}
			w.model = newModel(w.clock.Now())
			w.sliceSize, w.yield = 1+seed%3, w.betweenSlices
			w.swap("p")
			w.swap("r")
			for range 150 {
				w.step()
				w.compare()
				if t.Failed() {
					return
				}
			}
			for len(w.attempts) > 0 {
				w.endAttempt()
			}
			w.check()
			if n := w.inFlight.entries.Len(); n != 0 {
				t.Errorf("%d entries are left in the in-flight log after the last attempt", n)
			}
		})
	}
}

// compare checks the invariants of the queue, and compares it with the model.
func (w *randomHistory) compare() {
	w.t.Helper()
	if w.depth == 0 {
		w.check()
	} else if err := w.Check(); err != nil {
		w.t.Error(err)
	}
	if diff := cmp.Diff(w.model.podStates(), podStates(w.Queue)); diff != "" {
		w.t.Fatalf("the queue differs from the model (-model +queue), %d changes under way:\n%s", w.depth, diff)
	}
}

// step does one random thing.
func (w *randomHistory) step() {
	switch n := w.rng.IntN(100); {
	case n < 15:
		p := w.pod()
		if w.model.pods[p.UID] == nil {
			w.model.add(p)
			w.Add(w.ctx, p)
		}
	case n < 25:
		p := w.pod()
		w.model.update(p, event{ClusterEvent: podLabel, newObj: p})
		w.Update(w.ctx, p, p, podLabel)
	case n < 30:
		uid := w.pod().UID
		delete(w.model.pods, uid)
		w.Delete(uid)
	case n < 45:
		e := event{ClusterEvent: pick(w.rng, nodeAdd, podDelete, nodeLabel, csiNodeAdd),
			newObj: fixture.Node(pick(w.rng, "good", "bad")).Obj()}
		w.model.event(e)
		w.Event(w.ctx, e.ClusterEvent, nil, e.newObj, nil)
	case n < 48:
		w.activate()
	case n < 65:
		w.popNext()
	case n < 82:
		w.endAttempt()
	case n < 92:
		w.clock.Step(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
		if w.rng.IntN(10) == 0 {
			w.clock.Step(time.Minute)
		}
		w.model.now = w.clock.Now()
		w.model.tick()
		w.Tick(w.ctx)
	case n < 93:
		w.gateClosed = !w.gateClosed
	case n < 94:
		w.toggleHolds()
	case n < 98:
		w.swap(pick(w.rng, "p", "r"))
	default:
		name := pick(w.rng, "p", "r")
		delete(w.model.rules, name)
		w.inSlices(func() { w.RemoveProfile(name, Hold{Reason: ProfileDeleted}) })
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func (w *randomHistory) pod() *v1.Pod {
	n := w.rng.IntN(12)
	return fixture.Pod(fmt.Sprint("pod-", n)).SchedulerName([]string{"p", "r"}[n%2]).Priority(w.rng.Int32N(3)).Obj()
}

func (w *randomHistory) activate() {
	p := w.pod()
	if known := w.model.pods[p.UID]; known != nil {
		switch known.place {
		case InFlight:
			known.events = append(known.events, event{ClusterEvent: ForceActivate, newObj: p})
		case Unschedulable, Gated, Backoff:
			w.model.requeue(known, queueImmediately)
		}
	}
	w.Activate(w.ctx, map[string]*v1.Pod{p.Name: p})
}

func (w *randomHistory) popNext() {
	candidates := w.model.next()
	a := w.TryPop()
	if a == nil {
		if len(candidates) > 0 {
			w.t.Fatalf("nothing popped, want one of %v", candidates)
		}
		return
	}
	if !slices.Contains(candidates, a.Pod.UID) {
		w.t.Fatalf("popped %s, want one of %v", a.Pod.Name, candidates)
	}
	p := w.model.pods[a.Pod.UID]
	if rules := w.model.profile(p); rules != nil && w.model.strategyFor(p) == queueSkip {
		p.rules = rules
	}
	p.place, p.attempts, p.nodeChosen = InFlight, p.attempts+1, false
	w.attempts = append(w.attempts, a)
}

// endAttempt ends one of the attempts under way.
func (w *randomHistory) endAttempt() {
	if len(w.attempts) == 0 {
		return
	}
	i := w.rng.IntN(len(w.attempts))
	a := w.attempts[i]
	p := w.model.pods[a.Pod.UID]
	if _, queued := a.Current(); !queued {
		p = nil // a pod with the same UID may have been added since
	}
	if n := w.rng.IntN(10); n == 0 {
		a.StopRecordingEvents()
		if p != nil {
			p.recordsNoEvents, p.events = true, nil
		}
		return
	}
	w.attempts = slices.Delete(w.attempts, i, i+1)
	switch n := w.rng.IntN(10); {
	case n < 1:
		a.Return(w.ctx)
		if p != nil {
			p.attempts--
			p.events, p.recordsNoEvents = nil, false
			w.model.requeue(p, queueImmediately)
		}
	case n < 3:
		a.Done()
		if p != nil {
			delete(w.model.pods, a.Pod.UID)
		}
	case n < 5 || p != nil && p.recordsNoEvents:
		a.Failed(w.ctx)
		if p != nil {
			w.model.end(p, sets.New[string](), sets.New[string]())
		}
	default:
		if p != nil && w.rng.IntN(4) == 0 {
			a.SetNodeChosen()
			p.nodeChosen = true
		}
		rejectors := sets.New(pick(w.rng, "Fit", "Label", "Picky", "Broken", "Other"))
		pending := sets.New[string]()
		if w.rng.IntN(4) == 0 {
			pending.Insert(pick(w.rng, "Fit", "Picky"))
		}
		a.Refused(w.ctx, rejectors, pending)
		if p != nil {
			w.model.end(p, rejectors.Clone(), pending.Clone())
		}
	}
}

func byName(a, b fwk.QueuedEntityInfo) bool { return a.(*Entity).pod.Name < b.(*Entity).pod.Name }

// podState is what is compared of a pod.
type podState struct {
	Place     Place
	Attempts  int
	Rejectors []string
	Gate      string
	Until     time.Time
}

func (m *model) podStates() map[types.UID]podState {
	states := map[types.UID]podState{}
	for uid, p := range m.pods {
		states[uid] = newPodState(p.place, p.attempts, p.rejectors.Union(p.pending), p.gate, p.backoffUntil)
	}
	return states
}

func podStates(q *Queue) map[types.UID]podState {
	states := map[types.UID]podState{}
	for uid, p := range q.pods {
		states[uid] = newPodState(p.place, p.attempts, p.rejectors.Union(p.pending), p.gate, p.backoffUntil)
	}
	return states
}

func newPodState(where Place, attempts int, rejectors sets.Set[string], gate string, until time.Time) podState {
	if where != Backoff {
		until = time.Time{}
	}
	return podState{where, attempts, sets.List(rejectors), gate, until}
}
