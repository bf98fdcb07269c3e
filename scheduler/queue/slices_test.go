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
type sliceCost struct {
	*testEnv
	pods                  int
	compared, pluginCalls int
	countsBefore          map[string]int
	slices                int
}

// TestNoTurnWaitsForAllThatAChangeTouches lets many pods wait, half of them
// asleep, and holds each slice of a change to what a slice may cost: a constant
// number of pods, each with a few steps in a heap.
func TestASliceOfAProfileChangeIsBounded(t *testing.T) {
	for sentence, c := range map[string]struct {
		change func(*sliceCost)
		// left is where those are then that were asleep.
		left Place
		pods int
	}{
		"another sort": {func(w *sliceCost) {
			less := w.rules.Less
			w.rules.Sort, w.rules.Less = "Backwards", func(a, b fwk.QueuedEntityInfo) bool { return less(b, a) }
			w.setProfile()
		}, Unschedulable, 100_000},
		"another rejecting plugin": {func(w *sliceCost) { w.rules.Key.Plugins = map[string]string{"Fit": "two"}; w.setProfile() }, Backoff, 100_000},
		"a gate that comes": {func(w *sliceCost) {
			w.rules.Key.Plugins = map[string]string{"Fit": "one", "Gate": "one"}
			w.rules.Key.PreEnqueue = sets.New("Gate")
			w.closedGates.Insert("Gate")
			w.setProfile()
		}, Gated, 10_000},
		"a pause": {func(w *sliceCost) {
			w.rules.Key.Holds, w.hold = "all", Hold{Reason: ProfilePaused}
			w.setProfile()
		}, Held, 10_000},
		"a deletion":         {func(w *sliceCost) { w.RemoveProfile("p", Hold{Reason: ProfileDeleted}) }, Held, 10_000},
		"rules nobody knows": {func(w *sliceCost) { w.rules.Key = ProfileKey{}; w.setProfile() }, Backoff, 10_000},
		"namespaces that change": {func(w *sliceCost) {
			w.hold = Hold{Reason: NamespaceNotAllowed}
			w.Reconsider(w.ctx, "p", func(*v1.Pod) bool { return true })
		}, Held, 10_000},
		"nothing that decides": {func(w *sliceCost) { w.setProfile() }, Unschedulable, 10_000},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newSliceCost(t, c.pods)
			w.yield = w.schedulingCycle
			w.reset()
			c.change(w)
			w.schedulingCycle()
			// Each turn takes a pod away, at which no slice has to look any more.
			if want := c.pods / (defaultSliceSize + 1); w.slices < want {
				t.Errorf("the loop got %d turns, want %d at least", w.slices, want)
			}
			if at := w.placeOf(pod("asleep-7").UID); at != c.left {
				t.Errorf("who slept is %s, want %s", at, c.left)
			}
			w.check()
		})
	}
}

func newSliceCost(t *testing.T, pods int) *sliceCost {
	w := &sliceCost{testEnv: newTestEnv(t), pods: pods}
	order, ask := w.rules.Less, w.rules.PreEnqueue
	w.rules.Less = func(a, b fwk.QueuedEntityInfo) bool { w.compared++; return order(a, b) }
	w.rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string { w.pluginCalls++; return ask(ctx, p, last) }
	w.rules.Hold = func(*v1.Pod) Hold { w.pluginCalls++; return w.hold }
	w.rules.Key = ProfileKey{Plugins: map[string]string{"Fit": "one"}, PreEnqueue: sets.New[string](), Holds: "none"}
	w.setProfile()
	for i := range pods / 2 {
		w.Add(w.ctx, podWithPriority(fmt.Sprint("asleep-", i), int32(i%7)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
	for i := range pods / 2 {
		w.Add(w.ctx, podWithPriority(fmt.Sprint("awake-", i), int32(i%7)))
	}
	return w
}

// begin forgets what was done so far.
func (w *sliceCost) reset() {
	w.compared, w.pluginCalls, w.countsBefore = 0, 0, w.counts()
}

// places is how many pods are where.
func (w *sliceCost) counts() map[string]int {
	n := map[string]int{"in the log": w.inFlight.entries.Len()}
	for _, d := range w.unschedulable["p"] {
		n["dormant"] += len(d.pods)
	}
	for _, l := range w.subQueues {
		n[l.sort+" active"], n[l.sort+" backoff"] = l.active.Len(), l.backoff.Len()+l.errorBackoff.Len()
	}
	return n
}

// collect is the loop's turn: it finds a pod where one is active, after no more
// than a slice may cost.
func (w *sliceCost) schedulingCycle() {
	w.t.Helper()
	w.slices++
	steps := 6 * bits.Len(uint(w.pods))
	if w.compared > defaultSliceSize*steps || w.pluginCalls > 3*defaultSliceSize {
		w.t.Fatalf("before turn %d pods were compared %d times and plugins asked %d times", w.slices, w.compared, w.pluginCalls)
	}
	active := 0
	for place, n := range w.counts() {
		if moved := n - w.countsBefore[place]; max(moved, -moved) > defaultSliceSize {
			w.t.Fatalf("before turn %d %d pods moved: %s", w.slices, moved, place)
		}
	}
	for _, l := range w.subQueues {
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
	w.reset()
}

// Two profiles share a heap, and both leave it. The one that is through is
// closed: whoever is still in the heap is compared by the other.
func TestLessOfAClosedProfileIsNotCalled(t *testing.T) {
	w := newTestEnv(t)
	w.sliceSize = 2
	closed := map[string]bool{}
	adopt := func(profile, sort string) {
		rules := w.rules
		rules.Sort, rules.Less = sort, func(a, b fwk.QueuedEntityInfo) bool {
			if closed[profile+sort] {
				t.Errorf("%s is asked about %s after it was closed", profile, sort)
			}
			return byPriority(a, b)
		}
		w.SetProfile(w.ctx, profile, &rules)
	}
	adopt("p", "Priority")
	adopt("q", "Priority")
	for i := range 20 {
		w.Add(w.ctx, pod(fmt.Sprint("of-p-", i)))
		w.Add(w.ctx, fixture.Pod(fmt.Sprint("of-q-", i)).SchedulerName("q").Obj())
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
