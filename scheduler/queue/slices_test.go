package queue

import (
	"context"
	"fmt"
	"math/bits"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

// toll counts what is done between two moments at which the loop gets its turn:
// the questions to plugins, and the pods that change their place.
type toll struct {
	*world
	pods            int
	compared, asked int
	moved           map[string]int
	slices          int
}

// TestNoTurnWaitsForAllThatAChangeTouches lets many pods wait, half of them
// asleep, and holds each slice of a change to what a slice may cost: a constant
// number of pods, each with a few steps in a heap.
func TestNoTurnWaitsForAllThatAChangeTouches(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*toll)
		// left is where those are then that were asleep.
		left Place
		pods int
	}{
		"another sort": {func(w *toll) {
			less := w.rules.Less
			w.rules.Sort, w.rules.Less = "Backwards", func(a, b fwk.QueuedEntityInfo) bool { return less(b, a) }
			w.adopt()
		}, Unschedulable, 100_000},
		"another rejecting plugin": {func(w *toll) { w.rules.Makeup.Plugins = map[string]string{"Fit": "two"}; w.adopt() }, Backoff, 100_000},
		"a gate that comes": {func(w *toll) {
			w.rules.Makeup.Plugins = map[string]string{"Fit": "one", "Gate": "one"}
			w.rules.Makeup.Gates = sets.New("Gate")
			w.gates.Insert("Gate")
			w.adopt()
		}, Gated, 10_000},
		"a pause": {func(w *toll) {
			w.rules.Makeup.Holds, w.holds = "all", Hold{Reason: ProfilePaused}
			w.adopt()
		}, Parked, 10_000},
		"a deletion":         {func(w *toll) { w.Abandon("p", Hold{Reason: ProfileDeleted}) }, Parked, 10_000},
		"rules nobody knows": {func(w *toll) { w.rules.Makeup = Makeup{}; w.adopt() }, Backoff, 10_000},
		"namespaces that change": {func(w *toll) {
			w.holds = Hold{Reason: NamespaceNotAllowed}
			w.Reconsider(w.ctx, "p", func(*v1.Pod) bool { return true })
		}, Parked, 10_000},
		"nothing that decides": {func(w *toll) { w.adopt() }, Unschedulable, 10_000},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newToll(t, c.pods)
			w.yield = w.collect
			w.begin()
			c.change(w)
			w.collect()
			// Each turn takes a pod away, at which no slice has to look any more.
			if want := c.pods / (sliceOfPods + 1); w.slices < want {
				t.Errorf("the loop got %d turns, want %d at least", w.slices, want)
			}
			if at := w.where(pod("asleep-7").UID); at != c.left {
				t.Errorf("who slept is %s, want %s", at, c.left)
			}
			w.check()
		})
	}
}

func newToll(t *testing.T, pods int) *toll {
	w := &toll{world: newWorld(t), pods: pods}
	order, ask := w.rules.Less, w.rules.PreEnqueue
	w.rules.Less = func(a, b fwk.QueuedEntityInfo) bool { w.compared++; return order(a, b) }
	w.rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string { w.asked++; return ask(ctx, p, last) }
	w.rules.Hold = func(*v1.Pod) Hold { w.asked++; return w.holds }
	w.rules.Makeup = Makeup{Plugins: map[string]string{"Fit": "one"}, Gates: sets.New[string](), Holds: "none"}
	w.adopt()
	for i := range pods / 2 {
		w.Add(w.ctx, ranked(fmt.Sprint("asleep-", i), int32(i%7)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
	for i := range pods / 2 {
		w.Add(w.ctx, ranked(fmt.Sprint("awake-", i), int32(i%7)))
	}
	return w
}

// begin forgets what was done so far.
func (w *toll) begin() {
	w.compared, w.asked, w.moved = 0, 0, w.places()
}

// places is how many pods are where.
func (w *toll) places() map[string]int {
	n := map[string]int{"in the log": w.flights.log.Len()}
	for _, d := range w.dormant["p"] {
		n["dormant"] += len(d.pods)
	}
	for _, l := range w.lanes {
		n[l.sort+" active"], n[l.sort+" backoff"] = l.active.Len(), l.refusals.Len()+l.errors.Len()
	}
	return n
}

// collect is the loop's turn: it finds a pod where one is active, after no more
// than a slice may cost.
func (w *toll) collect() {
	w.t.Helper()
	w.slices++
	steps := 6 * bits.Len(uint(w.pods))
	if w.compared > sliceOfPods*steps || w.asked > 3*sliceOfPods {
		w.t.Fatalf("before turn %d pods were compared %d times and plugins asked %d times", w.slices, w.compared, w.asked)
	}
	active := 0
	for place, n := range w.places() {
		if moved := n - w.moved[place]; max(moved, -moved) > sliceOfPods {
			w.t.Fatalf("before turn %d %d pods moved: %s", w.slices, moved, place)
		}
	}
	for _, l := range w.lanes {
		active += l.active.Len()
	}
	w.compared = 0
	a := w.TryPop()
	if a == nil && active > 0 {
		w.t.Fatalf("nothing was popped in turn %d, where %d pods are active", w.slices, active)
	}
	if w.compared > steps {
		w.t.Fatalf("to pop one pod others were compared %d times", w.compared)
	}
	if a != nil {
		a.Done()
	}
	w.begin()
}

// Two profiles share a heap, and both leave it. The one that is through is
// closed: whoever is still in the heap is compared by the other.
func TestWhoIsAskedWhileEverybodyLeavesAHeap(t *testing.T) {
	w := newWorld(t)
	w.slice = 2
	closed := map[string]bool{}
	adopt := func(profile, sort string) {
		rules := w.rules
		rules.Sort, rules.Less = sort, func(a, b fwk.QueuedEntityInfo) bool {
			if closed[profile+sort] {
				t.Errorf("%s is asked about %s after it was closed", profile, sort)
			}
			return byPriority(a, b)
		}
		w.Adopt(w.ctx, profile, &rules)
	}
	adopt("p", "Priority")
	adopt("q", "Priority")
	for i := range 20 {
		w.Add(w.ctx, pod(fmt.Sprint("of-p-", i)))
		w.Add(w.ctx, fixture.Pod(fmt.Sprint("of-q-", i)).Scheduler("q").Obj())
	}
	w.yield = func() {
		w.yield = func() {}
		adopt("q", "Age")
		closed["qPriority"] = true
	}
	adopt("p", "Age")
	closed["pPriority"] = true
	for range 40 {
		if w.TryPop() == nil {
			t.Fatal("a pod was lost")
		}
	}
	w.check()
}
