package queue

import (
	"context"
	"fmt"
	"math/bits"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// sliceCost counts what a change of a profile does between two scheduling cycles: calls
// of plugins, and pods that change their place.
type sliceCost struct {
	*testEnv
	pods                  int
	compared, pluginCalls int
	countsBefore          map[string]int
	slices                int
}

// TestASliceOfAProfileChangeIsBounded adds many pods, half of them unschedulable, and
// checks what each slice of a change costs: a constant number of pods, each with a few
// steps in a heap.
func TestASliceOfAProfileChangeIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sliceCost)
		// left is the place of the unschedulable pods after the change.
		left Place
		pods int
	}{
		"another sort": {func(w *sliceCost) {
			less := w.rules.Less
			w.rules.Sort, w.rules.Less = "Backwards", func(a, b fwk.QueuedEntityInfo) bool { return less(b, a) }
			w.setProfile()
		}, Unschedulable, 100_000},
		"another rejecting plugin": {func(w *sliceCost) { w.rules.Key.Plugins = map[string]string{"Fit": "two"}; w.setProfile() }, Backoff, 100_000},
		"a new gate": {func(w *sliceCost) {
			w.rules.Key.Plugins = map[string]string{"Fit": "one", "Gate": "one"}
			w.rules.Key.PreEnqueue = sets.New("Gate")
			w.closedGates.Insert("Gate")
			w.setProfile()
		}, Gated, 10_000},
		"a pause": {func(w *sliceCost) {
			w.rules.Key.Holds, w.hold = "all", Hold{Reason: ProfilePaused}
			w.setProfile()
		}, Held, 10_000},
		"a deletion":            {func(w *sliceCost) { w.RemoveProfile("p", Hold{Reason: ProfileDeleted}) }, Held, 10_000},
		"an unknown ProfileKey": {func(w *sliceCost) { w.rules.Key = ProfileKey{}; w.setProfile() }, Backoff, 10_000},
		"changed namespaces": {func(w *sliceCost) {
			w.hold = Hold{Reason: NamespaceNotAllowed}
			w.Reconsider(w.ctx, "p", func(*v1.Pod) bool { return true })
		}, Held, 10_000},
		"no difference": {func(w *sliceCost) { w.setProfile() }, Unschedulable, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				c.pods = min(c.pods, 10_000)
			}
			w := newSliceCost(t, c.pods)
			w.yield = w.schedulingCycle
			w.reset()
			c.change(w)
			w.schedulingCycle()
			// Each cycle removes a pod, which no later slice has to visit.
			if want := c.pods / (defaultSliceSize + 1); w.slices < want {
				t.Errorf("%d scheduling cycles, want %d at least", w.slices, want)
			}
			if at := w.placeOf(pod("unschedulable-7").UID); at != c.left {
				t.Errorf("an unschedulable pod is %s, want %s", at, c.left)
			}
			w.check()
		})
	}
}

func newSliceCost(t *testing.T, pods int) *sliceCost {
	w := &sliceCost{testEnv: newTestEnv(t), pods: pods}
	less, preEnqueue := w.rules.Less, w.rules.PreEnqueue
	w.rules.Less = func(a, b fwk.QueuedEntityInfo) bool { w.compared++; return less(a, b) }
	w.rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string {
		w.pluginCalls++
		return preEnqueue(ctx, p, last)
	}
	w.rules.Hold = func(*v1.Pod) Hold { w.pluginCalls++; return w.hold }
	w.rules.Key = ProfileKey{Plugins: map[string]string{"Fit": "one"}, PreEnqueue: sets.New[string](), Holds: "none"}
	w.setProfile()
	for i := range pods / 2 {
		w.Add(w.ctx, podWithPriority(fmt.Sprint("unschedulable-", i), int32(i%7)))
		w.TryPop().Refused(w.ctx, sets.New("Fit"), nil)
	}
	for i := range pods / 2 {
		w.Add(w.ctx, podWithPriority(fmt.Sprint("active-", i), int32(i%7)))
	}
	return w
}

// reset starts to count anew.
func (w *sliceCost) reset() {
	w.compared, w.pluginCalls, w.countsBefore = 0, 0, w.counts()
}

// counts returns the number of pods by place.
func (w *sliceCost) counts() map[string]int {
	n := map[string]int{"in flight": w.inFlight.entries.Len()}
	for _, d := range w.unschedulable["p"] {
		n["unschedulable"] += len(d.pods)
	}
	for _, l := range w.subQueues {
		n[l.sort+" active"], n[l.sort+" backoff"] = l.active.Len(), l.backoff.Len()+l.errorBackoff.Len()
	}
	return n
}

// schedulingCycle pops a pod, if one is active, and checks that the slice before did not
// exceed its bounds.
func (w *sliceCost) schedulingCycle() {
	w.t.Helper()
	w.slices++
	steps := 6 * bits.Len(uint(w.pods))
	if w.compared > defaultSliceSize*steps || w.pluginCalls > 3*defaultSliceSize {
		w.t.Fatalf("before cycle %d pods were compared %d times and plugins called %d times", w.slices, w.compared, w.pluginCalls)
	}
	active := 0
	for place, n := range w.counts() {
		if moved := n - w.countsBefore[place]; max(moved, -moved) > defaultSliceSize {
			w.t.Fatalf("before cycle %d %d pods moved: %s", w.slices, moved, place)
		}
	}
	for _, l := range w.subQueues {
		active += l.active.Len()
	}
	w.compared = 0
	a := w.TryPop()
	if a == nil && active > 0 {
		w.t.Fatalf("nothing was popped in cycle %d, with %d active pods", w.slices, active)
	}
	if w.compared > steps {
		w.t.Fatalf("one pop compared pods %d times", w.compared)
	}
	if a != nil {
		a.Done()
	}
	w.reset()
}

// Two profiles share a sub-queue and both leave it. When one of them is closed, the Less
// of the other compares the pods that are left.
func TestLessOfAClosedProfileIsNotCalled(t *testing.T) {
	w := newTestEnv(t)
	w.sliceSize = 2
	closed := map[string]bool{}
	adopt := func(profile, sort string) {
		rules := w.rules
		rules.Sort, rules.Less = sort, func(a, b fwk.QueuedEntityInfo) bool {
			if closed[profile+sort] {
				t.Errorf("Less of %s was called for %s after the profile was closed", profile, sort)
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
