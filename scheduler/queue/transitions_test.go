package queue

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/test/fixture"
)

// transitions are the ways from one place to another, each a short history.
var transitions = map[string]func(*testEnv){
	"a pod of a profile that nobody serves is none of the queue's business": func(w *testEnv) {
		w.Add(w.ctx, fixture.Pod("a").SchedulerName("other").Obj())
		w.expectAt("")
	},
	"a new pod is active": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.expectAt(Active, "a")
	},
	"a new pod that a gate keeps out is gated": func(w *testEnv) {
		w.closedGates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.expectAt(Gated, "a")
	},
	"a new pod that the profile holds is parked and told": func(w *testEnv) {
		w.hold = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.expectAt(Held, "a")
		if !slices.Equal(w.notified, []string{"a Unsupported"}) {
			w.t.Errorf("told %v", w.notified)
		}
	},
	"the highest priority is popped first, and among equals the oldest": func(w *testEnv) {
		w.Add(w.ctx, podWithPriority("old", 1))
		w.clock.Step(time.Millisecond)
		w.Add(w.ctx, podWithPriority("new", 1))
		w.Add(w.ctx, podWithPriority("high", 2))
		w.pop("high")
		w.pop("old")
		w.pop("new")
	},
	"a pod whose priority rises is popped earlier": func(w *testEnv) {
		w.Add(w.ctx, podWithPriority("a", 1))
		w.Add(w.ctx, podWithPriority("b", 2))
		w.Update(w.ctx, podWithPriority("a", 1), podWithPriority("a", 3), podLabel)
		w.pop("a")
	},
	"a popped pod is in flight, and attempts are counted from 1": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.expectAt(InFlight, "a")
		if a.Count != 1 || !a.Since.Equal(w.clock.Now()) {
			w.t.Errorf("attempt %d since %v", a.Count, a.Since)
		}
	},
	"a pod that is bound is forgotten": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Done()
		w.expectAt(InFlight)
	},
	"a refused pod sleeps": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.expectAt(Unschedulable, "a")
	},
	"an event that its plugin waits for wakes it into backoff": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Backoff, "a")
	},
	"an event after its backoff makes it active": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.clock.Step(3 * time.Second)
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Active, "a")
	},
	"an event that no plugin of its waits for leaves it asleep": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Label")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Unschedulable, "a")
	},
	"an event whose hint says no leaves it asleep": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Picky")
		w.nodeEvent(nodeAdd, "bad")
		w.expectAt(Unschedulable, "a")
	},
	"a pod that waits for a Pending plugin skips its backoff": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, nil, sets.New("Fit"))
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Active, "a")
	},
	"an event during the attempt is heard when the attempt ends": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.nodeEvent(nodeAdd, "n")
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.expectAt(Backoff, "a")
	},
	"an event before the attempt is not": func(w *testEnv) {
		w.Add(w.ctx, pod("b"))
		b := w.pop("b") // so that the log is kept
		w.nodeEvent(nodeAdd, "n")
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
		w.expectAt(Unschedulable, "a")
		b.Done()
	},
	"a deaf attempt hears of nothing, and comes back after an error": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		a.StopRecordingEvents()
		w.nodeEvent(nodeAdd, "n")
		a.Failed(w.ctx)
		w.expectAt(Backoff, "a")
	},
	"an error backs off by itself, and an idle queue does not hurry it": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.expectAt(Backoff, "a")
		if a := w.TryPop(); a != nil {
			w.t.Error("popped a pod that backs off after an error")
		}
	},
	"an idle queue takes a refused pod before its backoff is over": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.nodeEvent(nodeAdd, "n")
		w.pop("a")
	},
	"a queue that is not idle does not": func(w *testEnv) {
		w.addRejectedBy(podWithPriority("a", 9), "Fit")
		w.nodeEvent(nodeAdd, "n")
		w.Add(w.ctx, podWithPriority("b", 1))
		w.pop("b")
	},
	"a refusal without a plugin counts as an error": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, nil, nil)
		w.expectAt(Backoff, "a")
		if n := w.pods[pod("a").UID].consecutiveErrors; n != 1 {
			w.t.Errorf("%d errors, want 1", n)
		}
	},
	"a backoff ends with its window": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.advance(time.Second)
		w.expectAt(Backoff, "a")
		w.advance(time.Second)
		w.expectAt(Active, "a")
	},
	"activation skips the backoff": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.expectAt(Active, "a")
	},
	"activation wakes a sleeper without an event": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Nobody")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.expectAt(Active, "a")
	},
	"activation of a pod in flight is heard when it comes back": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		a.Refused(w.ctx, sets.New("Nobody"), nil)
		w.expectAt(Backoff, "a")
	},
	"activation does not unpark, and knows no strangers": func(w *testEnv) {
		w.hold = Hold{Reason: ProfilePaused}
		w.Add(w.ctx, pod("a"))
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a"), "b": pod("b")})
		w.expectAt(Held, "a")
	},
	"a gate is asked again by its own event": func(w *testEnv) {
		w.closedGates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Gated, "a")
		w.closedGates.Delete("Gate")
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Active, "a")
	},
	"an event for another of its plugins does not ask the gate": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.closedGates.Insert("Gate")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Gated, "a")
		w.closedGates.Delete("Gate")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Gated, "a")
	},
	"an update of the pod itself wakes it where a plugin waits for that": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Label")
		w.addRejectedBy(pod("b"), "Fit")
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.expectAt(Backoff, "a")
		w.expectAt(Unschedulable, "b")
	},
	"an update during the attempt is heard, and the pod comes back newer": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		newer := fixture.Pod("a").SchedulerName("p").Label("x", "y").Obj()
		w.Update(w.ctx, pod("a"), newer, podLabel)
		if current, here := a.Current(); !here || current != newer {
			w.t.Errorf("current is %v, here %v", current, here)
		}
		a.Refused(w.ctx, sets.New("Label"), nil)
		w.expectAt(Backoff, "a")
		if got := w.pop("a").Pod; got != newer {
			w.t.Error("the next attempt has the old version of the pod")
		}
	},
	"an update of a parked pod asks from the start": func(w *testEnv) {
		w.hold = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.hold = Hold{}
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.expectAt(Active, "a")
		if len(w.notified) != 1 {
			w.t.Errorf("told %v, want once", w.notified)
		}
	},
	"an update of a stranger adds it, and a renewal does not": func(w *testEnv) {
		if w.UpdateKnown(w.ctx, pod("a"), pod("a"), podLabel) {
			w.t.Error("a stranger was renewed")
		}
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.expectAt(Active, "b")
	},
	"the flush wakes who slept longer than the profile's period": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Nobody")
		w.advance(5 * time.Minute)
		w.expectAt(Unschedulable, "a")
		w.advance(time.Second)
		if !w.pop("a").Flushed() {
			w.t.Error("the attempt does not say that the flush woke the pod")
		}
	},
	"a period of 0 never flushes": func(w *testEnv) {
		w.rules.FlushAfter = 0
		w.setProfile()
		w.addRejectedBy(pod("a"), "Nobody")
		w.advance(24 * time.Hour)
		w.expectAt(Unschedulable, "a")
	},
	"an attempt that did not take place does not count": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Return(w.ctx)
		if a := w.pop("a"); a.Count != 1 {
			w.t.Errorf("attempt %d, want 1", a.Count)
		}
	},
}

func TestTransitions(t *testing.T) {
	for sentence, history := range transitions {
		t.Run(sentence, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
			w.check()
		})
	}
}
