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
var transitions = map[string]func(*world){
	"a pod of a profile that nobody serves is none of the queue's business": func(w *world) {
		w.Add(w.ctx, fixture.Pod("a").Scheduler("other").Obj())
		w.wantAt("")
	},
	"a new pod is active": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.wantAt(Active, "a")
	},
	"a new pod that a gate keeps out is gated": func(w *world) {
		w.gates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.wantAt(Gated, "a")
	},
	"a new pod that the profile holds is parked and told": func(w *world) {
		w.holds = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.wantAt(Parked, "a")
		if !slices.Equal(w.told, []string{"a Unsupported"}) {
			w.t.Errorf("told %v", w.told)
		}
	},
	"the highest priority is popped first, and among equals the oldest": func(w *world) {
		w.Add(w.ctx, ranked("old", 1))
		w.clock.Step(time.Millisecond)
		w.Add(w.ctx, ranked("new", 1))
		w.Add(w.ctx, ranked("high", 2))
		w.pop("high")
		w.pop("old")
		w.pop("new")
	},
	"a pod whose priority rises is popped earlier": func(w *world) {
		w.Add(w.ctx, ranked("a", 1))
		w.Add(w.ctx, ranked("b", 2))
		w.Update(w.ctx, ranked("a", 1), ranked("a", 3), podLabel)
		w.pop("a")
	},
	"a popped pod is in flight, and attempts are counted from 1": func(w *world) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.wantAt(InFlight, "a")
		if a.Count != 1 || !a.Since.Equal(w.clock.Now()) {
			w.t.Errorf("attempt %d since %v", a.Count, a.Since)
		}
	},
	"a pod that is bound is forgotten": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Done()
		w.wantAt(InFlight)
	},
	"a refused pod sleeps": func(w *world) {
		w.refused(pod("a"), "Fit")
		w.wantAt(Unschedulable, "a")
	},
	"an event that its plugin waits for wakes it into backoff": func(w *world) {
		w.refused(pod("a"), "Fit")
		w.happens(nodeAdd, "n")
		w.wantAt(Backoff, "a")
	},
	"an event after its backoff makes it active": func(w *world) {
		w.refused(pod("a"), "Fit")
		w.clock.Step(3 * time.Second)
		w.happens(nodeAdd, "n")
		w.wantAt(Active, "a")
	},
	"an event that no plugin of its waits for leaves it asleep": func(w *world) {
		w.refused(pod("a"), "Label")
		w.happens(nodeAdd, "n")
		w.wantAt(Unschedulable, "a")
	},
	"an event whose hint says no leaves it asleep": func(w *world) {
		w.refused(pod("a"), "Picky")
		w.happens(nodeAdd, "bad")
		w.wantAt(Unschedulable, "a")
	},
	"a pod that waits for a Pending plugin skips its backoff": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, nil, sets.New("Fit"))
		w.happens(nodeAdd, "n")
		w.wantAt(Active, "a")
	},
	"an event during the attempt is heard when the attempt ends": func(w *world) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.happens(nodeAdd, "n")
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.wantAt(Backoff, "a")
	},
	"an event before the attempt is not": func(w *world) {
		w.Add(w.ctx, pod("b"))
		b := w.pop("b") // so that the log is kept
		w.happens(nodeAdd, "n")
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
		w.wantAt(Unschedulable, "a")
		b.Done()
	},
	"a deaf attempt hears of nothing, and comes back after an error": func(w *world) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		a.Deaf()
		w.happens(nodeAdd, "n")
		a.Failed(w.ctx)
		w.wantAt(Backoff, "a")
	},
	"an error backs off by itself, and an idle queue does not hurry it": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.wantAt(Backoff, "a")
		if a := w.TryPop(); a != nil {
			w.t.Error("popped a pod that backs off after an error")
		}
	},
	"an idle queue takes a refused pod before its backoff is over": func(w *world) {
		w.refused(pod("a"), "Fit")
		w.happens(nodeAdd, "n")
		w.pop("a")
	},
	"a queue that is not idle does not": func(w *world) {
		w.refused(ranked("a", 9), "Fit")
		w.happens(nodeAdd, "n")
		w.Add(w.ctx, ranked("b", 1))
		w.pop("b")
	},
	"a refusal without a plugin counts as an error": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, nil, nil)
		w.wantAt(Backoff, "a")
		if n := w.pods[pod("a").UID].consecutiveErrors; n != 1 {
			w.t.Errorf("%d errors, want 1", n)
		}
	},
	"a backoff ends with its window": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.later(time.Second)
		w.wantAt(Backoff, "a")
		w.later(time.Second)
		w.wantAt(Active, "a")
	},
	"activation skips the backoff": func(w *world) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.wantAt(Active, "a")
	},
	"activation wakes a sleeper without an event": func(w *world) {
		w.refused(pod("a"), "Nobody")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.wantAt(Active, "a")
	},
	"activation of a pod in flight is heard when it comes back": func(w *world) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		a.Refused(w.ctx, sets.New("Nobody"), nil)
		w.wantAt(Backoff, "a")
	},
	"activation does not unpark, and knows no strangers": func(w *world) {
		w.holds = Hold{Reason: ProfilePaused}
		w.Add(w.ctx, pod("a"))
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a"), "b": pod("b")})
		w.wantAt(Parked, "a")
	},
	"a gate is asked again by its own event": func(w *world) {
		w.gates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.happens(nodeLabel, "n")
		w.wantAt(Gated, "a")
		w.gates.Delete("Gate")
		w.happens(nodeLabel, "n")
		w.wantAt(Active, "a")
	},
	"an event for another of its plugins does not ask the gate": func(w *world) {
		w.refused(pod("a"), "Fit")
		w.gates.Insert("Gate")
		w.happens(nodeAdd, "n")
		w.wantAt(Gated, "a")
		w.gates.Delete("Gate")
		w.happens(nodeAdd, "n")
		w.wantAt(Gated, "a")
	},
	"an update of the pod itself wakes it where a plugin waits for that": func(w *world) {
		w.refused(pod("a"), "Label")
		w.refused(pod("b"), "Fit")
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.wantAt(Backoff, "a")
		w.wantAt(Unschedulable, "b")
	},
	"an update during the attempt is heard, and the pod comes back newer": func(w *world) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		newer := fixture.Pod("a").Scheduler("p").Label("x", "y").Obj()
		w.Update(w.ctx, pod("a"), newer, podLabel)
		if current, here := a.Current(); !here || current != newer {
			w.t.Errorf("current is %v, here %v", current, here)
		}
		a.Refused(w.ctx, sets.New("Label"), nil)
		w.wantAt(Backoff, "a")
		if got := w.pop("a").Pod; got != newer {
			w.t.Error("the next attempt has the old version of the pod")
		}
	},
	"an update of a parked pod asks from the start": func(w *world) {
		w.holds = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.holds = Hold{}
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.wantAt(Active, "a")
		if len(w.told) != 1 {
			w.t.Errorf("told %v, want once", w.told)
		}
	},
	"an update of a stranger adds it, and a renewal does not": func(w *world) {
		if w.Renew(w.ctx, pod("a"), pod("a"), podLabel) {
			w.t.Error("a stranger was renewed")
		}
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.wantAt(Active, "b")
	},
	"the flush wakes who slept longer than the profile's period": func(w *world) {
		w.refused(pod("a"), "Nobody")
		w.later(5 * time.Minute)
		w.wantAt(Unschedulable, "a")
		w.later(time.Second)
		if !w.pop("a").Flushed() {
			w.t.Error("the attempt does not say that the flush woke the pod")
		}
	},
	"a period of 0 never flushes": func(w *world) {
		w.rules.FlushAfter = 0
		w.adopt()
		w.refused(pod("a"), "Nobody")
		w.later(24 * time.Hour)
		w.wantAt(Unschedulable, "a")
	},
	"an attempt that did not take place does not count": func(w *world) {
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
			w := newWorld(t)
			history(w)
			w.check()
		})
	}
}
