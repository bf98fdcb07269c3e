package queue

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/fixture"
)

// filter is a call of plugin Fit that panics.
var filter = framework.Poison{Call: framework.Call{Plugin: "Fit", Point: "Filter"}, Print: "1"}

// statusUpdate is an update that no plugin can name.
var statusUpdate = fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}

// poisoned lets the next attempts of a fail, so many, each with a poisoned call.
func (w *world) poisoned(times int) {
	w.t.Helper()
	for range times {
		w.later(time.Minute)
		a := w.pop("a")
		w.Poisoned(a.Pod.UID, filter)
		w.Poisoned(a.Pod.UID, filter) // on another node
		a.Failed(w.ctx)
	}
}

func labelled() *v1.Pod { return fixture.Pod("a").Scheduler("p").Label("new", "label").Obj() }

// asides are short histories of a pod, "a", at which a plugin panics.
var asides = map[string]func(*world){
	"twice is not enough": func(w *world) {
		w.poisoned(2)
		w.wantAt(Backoff, "a")
	},
	"three times within ten minutes set it aside, and it is told": func(w *world) {
		w.poisoned(3)
		w.wantAt(Parked, "a")
		if len(w.told) != 1 || w.told[0] != "a SetAside" {
			w.t.Errorf("told %v", w.told)
		}
		hold, _ := w.HoldOf(pod("a").UID)
		for _, want := range []string{`plugin "Fit" panicked in Filter`, "until 2026-01-01T00:08:00Z"} {
			if !strings.Contains(hold.Message, want) {
				w.t.Errorf("message %q, want it to say %q", hold.Message, want)
			}
		}
		if c := w.Counts("p"); c.SetAside != 1 || c.Parked != 0 {
			w.t.Errorf("counts %+v", c)
		}
	},
	"three times in a longer time do not": func(w *world) {
		w.poisoned(2)
		w.later(9 * time.Minute)
		w.poisoned(1)
		w.wantAt(Backoff, "a")
	},
	"a call that hangs counts as well": func(w *world) {
		w.poisoned(2)
		w.later(time.Minute)
		a := w.pop("a")
		w.Poisoned(a.Pod.UID, framework.Poison{Call: framework.Call{Plugin: "Fit", Point: "Score"}, Hung: true, Print: "1"})
		a.Failed(w.ctx)
		if hold, _ := w.HoldOf(a.Pod.UID); !strings.Contains(hold.Message, `plugin "Fit" did not come back from Score`) {
			w.t.Errorf("message %q", hold.Message)
		}
	},
	"a refusal beside it changes nothing": func(w *world) {
		w.poisoned(2)
		w.later(time.Minute)
		a := w.pop("a")
		w.Poisoned(a.Pod.UID, filter)
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.happens(nodeAdd, "n")
		w.wantAt(Parked, "a")
	},
	"at the gate each call counts": func(w *world) {
		w.rules.PreEnqueue = poisonedGate(w)
		w.adopt()
		w.happens(nodeLabel, "n")
		w.wantAt(Gated, "a")
		w.happens(nodeLabel, "n")
		w.wantAt(Parked, "a")
	},
	"it comes back after five minutes, and others are not held up": func(w *world) {
		w.poisoned(3)
		w.Add(w.ctx, pod("b"))
		w.pop("b").Done()
		w.later(5*time.Minute - time.Second)
		w.wantAt(Parked, "a")
		w.later(time.Second)
		w.wantAt(Active, "a")
	},
	"each time that it was in vain it waits twice as long, an hour at most": func(w *world) {
		w.poisoned(3)
		for _, wait := range []time.Duration{5, 10, 20, 40, 60, 60} {
			w.later(wait*time.Minute - time.Second)
			w.wantAt(Parked, "a")
			w.later(time.Second)
			w.wantAt(Active, "a")
			a := w.pop("a")
			w.Poisoned(a.Pod.UID, filter)
			a.Failed(w.ctx)
			w.wantAt(Parked, "a")
		}
	},
	"one that was well for ten minutes begins anew": func(w *world) {
		w.poisoned(3)
		w.later(5 * time.Minute)
		w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
		w.later(11 * time.Minute)
		w.happens(nodeAdd, "n")
		w.poisoned(2)
		w.wantAt(Backoff, "a")
	},
	"a change of the pod has it tried at once": func(w *world) {
		w.poisoned(3)
		w.Update(w.ctx, pod("a"), labelled(), podLabel)
		w.wantAt(Active, "a")
	},
	"and one call more sets it aside again, for longer": func(w *world) {
		w.poisoned(3)
		w.Update(w.ctx, pod("a"), labelled(), podLabel)
		w.poisoned(1)
		w.later(5 * time.Minute)
		w.wantAt(Parked, "a")
		w.later(5 * time.Minute)
		w.wantAt(Active, "a")
	},
	"a change while it is tried has it tried as it is": func(w *world) {
		w.poisoned(2)
		w.later(time.Minute)
		a := w.pop("a")
		w.Update(w.ctx, pod("a"), labelled(), podLabel)
		w.Poisoned(a.Pod.UID, filter)
		a.Failed(w.ctx)
		if _, is := w.HoldOf(a.Pod.UID); is {
			w.t.Error("is held")
		}
		w.poisoned(1)
		w.wantAt(Parked, "a")
	},
	"what only its status says is no change": func(w *world) {
		w.poisoned(3)
		w.Update(w.ctx, pod("a"), fixture.Pod("a").Scheduler("p").Nominated("n").Obj(), statusUpdate)
		w.wantAt(Parked, "a")
		if len(w.told) != 1 {
			w.t.Errorf("told %v", w.told)
		}
	},
	"no event brings it back": func(w *world) {
		w.poisoned(3)
		w.happens(nodeAdd, "n")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.wantAt(Parked, "a")
	},
	"a swap that changes its plugin has it tried at once": func(w *world) {
		w.poisoned(3)
		w.rules.Plugins = map[string]string{"Fit": "2"}
		w.adopt()
		w.wantAt(Active, "a")
		w.rules.Plugins = map[string]string{"Fit": "1"}
		w.adopt()
		w.wantAt(Active, "a")
	},
	"a swap that removes it does, too": func(w *world) {
		w.poisoned(3)
		w.rules.Plugins = nil
		w.adopt()
		w.wantAt(Active, "a")
	},
	"a swap of others does not": func(w *world) {
		w.poisoned(3)
		w.rules.Plugins = map[string]string{"Fit": "1", "Other": "2"}
		w.adopt()
		w.wantAt(Parked, "a")
	},
	"what a plugin does that is another by now does not count": func(w *world) {
		w.poisoned(2)
		w.later(time.Minute)
		a := w.pop("a")
		w.rules.Plugins = map[string]string{"Fit": "2"}
		w.adopt()
		w.Poisoned(a.Pod.UID, filter)
		a.Failed(w.ctx)
		w.wantAt(Backoff, "a")
	},
	"it stays set aside while its profile is gone": func(w *world) {
		w.poisoned(3)
		w.Abandon("p", Hold{Reason: ProfileDeleted})
		w.adopt()
		if hold, _ := w.HoldOf(pod("a").UID); hold.Reason != SetAside {
			w.t.Errorf("held for %q", hold.Reason)
		}
		w.Abandon("p", Hold{Reason: ProfileDeleted})
		w.later(5 * time.Minute)
		w.adopt()
		w.wantAt(Active, "a")
	},
	"one that is deleted is forgotten": func(w *world) {
		w.poisoned(3)
		w.Delete(pod("a").UID)
		w.wantAt(Parked)
		w.Add(w.ctx, pod("a"))
		w.wantAt(Active, "a")
	},
}

// poisonedGate is a gate that panics.
func poisonedGate(w *world) func(context.Context, *v1.Pod, string) string {
	return func(_ context.Context, pod *v1.Pod, _ string) string {
		w.Poisoned(pod.UID, framework.Poison{Call: framework.Call{Plugin: "Gate", Point: "PreEnqueue"}})
		return "Gate"
	}
}

func TestAPodThatPoisonsIsSetAside(t *testing.T) {
	for sentence, history := range asides {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.rules.Plugins = map[string]string{"Fit": "1"}
			w.adopt()
			w.Add(w.ctx, pod("a"))
			history(w)
			w.check()
		})
	}
}
