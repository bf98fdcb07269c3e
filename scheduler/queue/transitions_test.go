package queue

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/test/support/fixture"
)

// transitions are the moves from one place to another, each as a short history.
var transitions = map[string]func(*testEnv){
	"a pod of a profile that is not served is ignored": func(w *testEnv) {
		w.Add(w.ctx, fixture.Pod("a").SchedulerName("other").Obj())
		w.expectAt("")
	},
	"a new pod is active": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.expectAt(Active, "a")
	},
	"a new pod that a plugin gates is gated": func(w *testEnv) {
		w.closedGates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.expectAt(Gated, "a")
	},
	"a new pod that the profile holds is held, and the change is reported": func(w *testEnv) {
		w.hold = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.expectAt(Held, "a")
		if !slices.Equal(w.takeHolds(), []string{"a Unsupported"}) {
			w.t.Errorf("notified of %v", w.notified)
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
	"a pod whose priority is raised is popped earlier": func(w *testEnv) {
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
	"a refused pod is unschedulable": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.expectAt(Unschedulable, "a")
	},
	"an event of its rejector moves it to backoff": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Backoff, "a")
	},
	"an event of its rejector after the backoff makes it active": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.clock.Step(3 * time.Second)
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Active, "a")
	},
	"an event for which its rejector did not register leaves it unschedulable": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Label")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Unschedulable, "a")
	},
	"an event whose hint returns QueueSkip leaves it unschedulable": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Picky")
		w.nodeEvent(nodeAdd, "bad")
		w.expectAt(Unschedulable, "a")
	},
	"an event of a Pending plugin skips the backoff": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, nil, sets.New("Fit"))
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Active, "a")
	},
	"an event during the attempt is replayed when the attempt ends": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.nodeEvent(nodeAdd, "n")
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.expectAt(Backoff, "a")
	},
	"an event before the attempt is not replayed": func(w *testEnv) {
		w.Add(w.ctx, pod("b"))
		b := w.pop("b") // so that events are recorded
		w.nodeEvent(nodeAdd, "n")
		w.Add(w.ctx, pod("a"))
		w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
		w.expectAt(Unschedulable, "a")
		b.Done()
	},
	"an attempt that stopped recording events comes back after an error": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		a.StopRecordingEvents()
		w.nodeEvent(nodeAdd, "n")
		a.Failed(w.ctx)
		w.expectAt(Backoff, "a")
	},
	"an attempt that stopped recording events comes back after a refusal": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		a.StopRecordingEvents()
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.expectAt(Backoff, "a")
		a.StopRecordingEvents() // too late
		w.expectAt(Backoff, "a")
	},
	"a pod that failed with an error backs off, also in an idle queue": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Failed(w.ctx)
		w.expectAt(Backoff, "a")
		if a := w.TryPop(); a != nil {
			w.t.Error("popped a pod that backs off after an error")
		}
	},
	"an idle queue pops a refused pod before its backoff is over": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.nodeEvent(nodeAdd, "n")
		w.pop("a")
	},
	"a queue with active pods does not": func(w *testEnv) {
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
	"activation makes an unschedulable pod active": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Other")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.expectAt(Active, "a")
	},
	"activation of a pod in flight is replayed when its attempt ends": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		a.Refused(w.ctx, sets.New("Other"), nil)
		w.expectAt(Backoff, "a")
	},
	"activation ignores held and unknown pods": func(w *testEnv) {
		w.hold = Hold{Reason: ProfilePaused}
		w.Add(w.ctx, pod("a"))
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a"), "b": pod("b")})
		w.expectAt(Held, "a")
	},
	"activation ignores what is no pod": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Other")
		w.Activate(w.ctx, map[string]*v1.Pod{"": nil, "a": pod("a")})
		w.expectAt(Active, "a")
	},
	"an event of the gating plugin runs it again": func(w *testEnv) {
		w.closedGates.Insert("Gate")
		w.Add(w.ctx, pod("a"))
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Gated, "a")
		w.closedGates.Delete("Gate")
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Active, "a")
	},
	"an event of another rejector does not run the gating plugin": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Fit")
		w.closedGates.Insert("Gate")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Gated, "a")
		w.closedGates.Delete("Gate")
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Gated, "a")
	},
	"an update of the pod wakes it if its rejector registered for that": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Label")
		w.addRejectedBy(pod("b"), "Fit")
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.expectAt(Backoff, "a")
		w.expectAt(Unschedulable, "b")
	},
	"an update during the attempt is replayed, and the newer pod comes back": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		a := w.pop("a")
		newer := fixture.Pod("a").SchedulerName("p").Label("x", "y").Obj()
		w.Update(w.ctx, pod("a"), newer, podLabel)
		if current, queued := a.Current(); !queued || current != newer {
			w.t.Errorf("current is %v, queued %v", current, queued)
		}
		a.Refused(w.ctx, sets.New("Label"), nil)
		w.expectAt(Backoff, "a")
		if got := w.pop("a").Pod; got != newer {
			w.t.Error("the next attempt has the old version of the pod")
		}
	},
	"an update of a held pod checks the hold again": func(w *testEnv) {
		w.hold = Hold{Reason: Unsupported}
		w.Add(w.ctx, pod("a"))
		w.takeHolds()
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.takeHolds()
		w.hold = Hold{}
		w.Update(w.ctx, pod("a"), pod("a"), podLabel)
		w.expectAt(Active, "a")
		if len(w.takeHolds()) != 1 {
			w.t.Errorf("notified of %v, want once", w.notified)
		}
	},
	"Update adds an unknown pod, and UpdateKnown does not": func(w *testEnv) {
		if w.UpdateKnown(w.ctx, pod("a"), pod("a"), podLabel) {
			w.t.Error("UpdateKnown knows the pod")
		}
		w.Update(w.ctx, pod("b"), pod("b"), podLabel)
		w.expectAt(Active, "b")
	},
	"the flush retries pods that were unschedulable longer than FlushAfter": func(w *testEnv) {
		w.addRejectedBy(pod("a"), "Other")
		w.advance(5 * time.Minute)
		w.expectAt(Unschedulable, "a")
		w.advance(time.Second)
		if !w.pop("a").Flushed() {
			w.t.Error("the attempt is not flagged as flushed")
		}
	},
	"a FlushAfter of 0 never flushes": func(w *testEnv) {
		w.rules.FlushAfter = 0
		w.setProfile()
		w.addRejectedBy(pod("a"), "Other")
		w.advance(24 * time.Hour)
		w.expectAt(Unschedulable, "a")
	},
	"an attempt that was returned does not count": func(w *testEnv) {
		w.Add(w.ctx, pod("a"))
		w.pop("a").Return(w.ctx)
		if a := w.pop("a"); a.Count != 1 {
			w.t.Errorf("attempt %d, want 1", a.Count)
		}
	},
}

func TestTransitions(t *testing.T) {
	for name, history := range transitions {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
			w.check()
		})
	}
}
