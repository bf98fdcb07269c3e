package queue

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/test/support/fixture"
)

// filterFault is a panic of plugin Fit in Filter.
var filterFault = framework.PluginFault{Call: framework.Call{Plugin: "Fit", Point: "Filter"}, Fingerprint: "1"}

// statusUpdate is an update of a pod for which plugins cannot register.
var statusUpdate = fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}

// failWithFaults lets the given number of attempts of pod "a" fail with a plugin
// fault each.
func (w *testEnv) failWithFaults(times int) {
	w.t.Helper()
	for range times {
		w.advance(time.Minute)
		a := w.pop("a")
		w.RecordPluginFault(a.Pod.UID, filterFault)
		w.RecordPluginFault(a.Pod.UID, filterFault) // on another node
		a.Failed(w.ctx)
	}
}

func labelledPod() *v1.Pod { return fixture.Pod("a").SchedulerName("p").Label("new", "label").Obj() }

// quarantineHistories are short histories of pod "a", at which a plugin panics.
var quarantineHistories = map[string]func(*testEnv){
	"two faults are not enough": func(w *testEnv) {
		w.failWithFaults(2)
		w.expectAt(Backoff, "a")
	},
	"three faults within ten minutes quarantine it, and the change is reported": func(w *testEnv) {
		w.failWithFaults(3)
		w.expectAt(Held, "a")
		if !slices.Equal(w.takeHolds(), []string{"a Quarantined"}) {
			w.t.Errorf("notified of %v", w.notified)
		}
		hold, _ := w.holdOf(pod("a").UID)
		for _, want := range []string{`plugin "Fit" panicked repeatedly in Filter`, "until 2026-01-01T00:08:00Z"} {
			if !strings.Contains(hold.Message, want) {
				w.t.Errorf("message %q, want it to contain %q", hold.Message, want)
			}
		}
		if c := w.Counts("p"); c.Quarantined != 1 || c.Held != 0 {
			w.t.Errorf("counts %+v", c)
		}
	},
	"three faults in a longer time do not": func(w *testEnv) {
		w.failWithFaults(2)
		w.advance(9 * time.Minute)
		w.failWithFaults(1)
		w.expectAt(Backoff, "a")
	},
	"a call that hangs counts, too": func(w *testEnv) {
		w.failWithFaults(2)
		w.advance(time.Minute)
		a := w.pop("a")
		w.RecordPluginFault(a.Pod.UID, framework.PluginFault{Call: framework.Call{Plugin: "Fit", Point: "Score"}, TimedOut: true, Fingerprint: "1"})
		a.Failed(w.ctx)
		if hold, _ := w.holdOf(a.Pod.UID); !strings.Contains(hold.Message, `plugin "Fit" hung repeatedly in Score`) {
			w.t.Errorf("message %q", hold.Message)
		}
	},
	"a refusal in the same attempt makes no difference": func(w *testEnv) {
		w.failWithFaults(2)
		w.advance(time.Minute)
		a := w.pop("a")
		w.RecordPluginFault(a.Pod.UID, filterFault)
		a.Refused(w.ctx, sets.New("Fit"), nil)
		w.nodeEvent(nodeAdd, "n")
		w.expectAt(Held, "a")
	},
	"at PreEnqueue each call counts": func(w *testEnv) {
		w.rules.PreEnqueue = faultyGate(w)
		w.setProfile()
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Gated, "a")
		w.nodeEvent(nodeLabel, "n")
		w.expectAt(Held, "a")
	},
	"it is retried after five minutes, and other pods are not delayed": func(w *testEnv) {
		w.failWithFaults(3)
		w.Add(w.ctx, pod("b"))
		w.pop("b").Done()
		w.advance(5*time.Minute - time.Second)
		w.expectAt(Held, "a")
		w.advance(time.Second)
		w.expectAt(Active, "a")
	},
	"each further fault doubles the quarantine, up to an hour": func(w *testEnv) {
		w.failWithFaults(3)
		for _, wait := range []time.Duration{5, 10, 20, 40, 60, 60} {
			w.advance(wait*time.Minute - time.Second)
			w.expectAt(Held, "a")
			w.advance(time.Second)
			w.expectAt(Active, "a")
			a := w.pop("a")
			w.RecordPluginFault(a.Pod.UID, filterFault)
			a.Failed(w.ctx)
			w.expectAt(Held, "a")
		}
	},
	"after ten minutes without a fault the count starts again": func(w *testEnv) {
		w.failWithFaults(3)
		w.advance(5 * time.Minute)
		w.pop("a").Refused(w.ctx, sets.New("Fit"), nil)
		w.advance(11 * time.Minute)
		w.nodeEvent(nodeAdd, "n")
		w.failWithFaults(2)
		w.expectAt(Backoff, "a")
	},
	"an update of the pod ends the quarantine": func(w *testEnv) {
		w.failWithFaults(3)
		w.Update(w.ctx, pod("a"), labelledPod(), podLabel)
		w.expectAt(Active, "a")
	},
	"one fault after an update quarantines it again, for longer": func(w *testEnv) {
		w.failWithFaults(3)
		w.Update(w.ctx, pod("a"), labelledPod(), podLabel)
		w.failWithFaults(1)
		w.advance(5 * time.Minute)
		w.expectAt(Held, "a")
		w.advance(5 * time.Minute)
		w.expectAt(Active, "a")
	},
	"after an update during the attempt the updated pod is tried": func(w *testEnv) {
		w.failWithFaults(2)
		w.advance(time.Minute)
		a := w.pop("a")
		w.Update(w.ctx, pod("a"), labelledPod(), podLabel)
		w.RecordPluginFault(a.Pod.UID, filterFault)
		a.Failed(w.ctx)
		if _, is := w.holdOf(a.Pod.UID); is {
			w.t.Error("the pod is held")
		}
		w.failWithFaults(1)
		w.expectAt(Held, "a")
	},
	"an update of its status does not count": func(w *testEnv) {
		w.failWithFaults(3)
		w.takeHolds()
		w.Update(w.ctx, pod("a"), fixture.Pod("a").SchedulerName("p").NominatedNodeName("n").Obj(), statusUpdate)
		w.expectAt(Held, "a")
		if len(w.takeHolds()) != 1 {
			w.t.Errorf("notified of %v", w.notified)
		}
	},
	"no event ends the quarantine": func(w *testEnv) {
		w.failWithFaults(3)
		w.nodeEvent(nodeAdd, "n")
		w.Activate(w.ctx, map[string]*v1.Pod{"a": pod("a")})
		w.expectAt(Held, "a")
	},
	"a swap that changes the plugin ends the quarantine": func(w *testEnv) {
		w.failWithFaults(3)
		w.rules.PluginFingerprints = map[string]string{"Fit": "2"}
		w.setProfile()
		w.expectAt(Active, "a")
		w.rules.PluginFingerprints = map[string]string{"Fit": "1"}
		w.setProfile()
		w.expectAt(Active, "a")
	},
	"a swap that removes the plugin ends the quarantine": func(w *testEnv) {
		w.failWithFaults(3)
		w.rules.PluginFingerprints = nil
		w.setProfile()
		w.expectAt(Active, "a")
	},
	"a swap of other plugins does not": func(w *testEnv) {
		w.failWithFaults(3)
		w.rules.PluginFingerprints = map[string]string{"Fit": "1", "Other": "2"}
		w.setProfile()
		w.expectAt(Held, "a")
	},
	"a fault of a plugin that was replaced meanwhile does not count": func(w *testEnv) {
		w.failWithFaults(2)
		w.advance(time.Minute)
		a := w.pop("a")
		w.rules.PluginFingerprints = map[string]string{"Fit": "2"}
		w.setProfile()
		w.RecordPluginFault(a.Pod.UID, filterFault)
		a.Failed(w.ctx)
		w.expectAt(Backoff, "a")
	},
	"it stays quarantined while its profile is removed": func(w *testEnv) {
		w.failWithFaults(3)
		w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
		w.setProfile()
		if hold, _ := w.holdOf(pod("a").UID); hold.Reason != Quarantined {
			w.t.Errorf("held for %q", hold.Reason)
		}
		w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
		w.advance(5 * time.Minute)
		w.setProfile()
		w.expectAt(Active, "a")
	},
	"the faults of a deleted pod are forgotten": func(w *testEnv) {
		w.failWithFaults(3)
		w.Delete(pod("a").UID)
		w.expectAt(Held)
		w.Add(w.ctx, pod("a"))
		w.expectAt(Active, "a")
	},
}

// faultyGate returns a PreEnqueue function whose plugin panics.
func faultyGate(w *testEnv) func(context.Context, *v1.Pod, string) string {
	return func(_ context.Context, pod *v1.Pod, _ string) string {
		w.RecordPluginFault(pod.UID, framework.PluginFault{Call: framework.Call{Plugin: "Gate", Point: "PreEnqueue"}})
		return "Gate"
	}
}

func TestQuarantine(t *testing.T) {
	for name, history := range quarantineHistories {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.rules.PluginFingerprints = map[string]string{"Fit": "1"}
			w.setProfile()
			w.Add(w.ctx, pod("a"))
			history(w)
			w.check()
		})
	}
}

// failGroupWithFaults lets the given number of attempts of a group fail with a plugin fault at
// its pod "a" each.
func (w *groupEnv) failGroupWithFaults(times int, names ...string) {
	w.t.Helper()
	for range times {
		w.advance(time.Minute)
		group := w.popGroup(names...)
		w.RecordPluginFault(pod("a").UID, filterFault)
		for _, m := range group.Group.Members {
			m.Failed(w.ctx)
		}
		group.FinishGroup(w.ctx, GroupFailed)
	}
}

// In each case, a plugin fails three times at pod "a" of a group that "b" is in, too.
func TestAGroupIsQuarantinedWithAnyOfItsPods(t *testing.T) {
	changed := func(name string) *v1.Pod {
		p := member(name, 1)
		p.Labels = map[string]string{"changed": ""}
		return p
	}
	for name, history := range map[string]func(w *groupEnv){
		"all its pods are held, and name the one at which the plugin fails": func(w *groupEnv) {
			w.expectAt(Held, "a", "b")
			hold, _ := w.holdOf(pod("b").UID)
			if want := `plugin "Fit" panicked repeatedly in Filter: the group of pod a is quarantined until 2026-01-01T00:08:00Z`; !strings.HasPrefix(hold.Message, want) {
				w.t.Errorf("message %q, want it to begin with %q", hold.Message, want)
			}
		},
		"it is tried again when the quarantine is over, and quarantined for longer by one more fault": func(w *groupEnv) {
			w.advance(5 * time.Minute)
			w.expectAt(Active, "a", "b")
			w.failGroupWithFaults(1, "a", "b")
			w.advance(9 * time.Minute)
			w.expectAt(Held, "a", "b")
			w.advance(time.Minute)
			w.expectAt(Active, "a", "b")
		},
		"a change of that pod ends the quarantine": func(w *groupEnv) {
			w.Update(w.ctx, member("a", 1), changed("a"), podLabel)
			w.expectAt(Active, "a", "b")
		},
		"a change of another pod does not": func(w *groupEnv) {
			w.Update(w.ctx, member("b", 1), changed("b"), podLabel)
			w.expectAt(Held, "a", "b")
		},
		"the deletion of that pod ends the quarantine of the others": func(w *groupEnv) {
			w.groups.RemovePod(member("a", 1))
			w.Delete(pod("a").UID)
			w.expectAt(Active, "b")
		},
		"a pod that joins the group is held with it": func(w *groupEnv) {
			w.addPods(member("c", 1))
			w.expectAt(Held, "a", "b", "c")
		},
		"a change that takes that pod out of the group ends the quarantine": func(w *groupEnv) {
			w.groups.RemovePod(member("a", 1))
			w.Update(w.ctx, member("a", 1), pod("a"), podLabel)
			w.expectAt(Active, "a", "b")
		},
		"a swap that changes the plugin ends the quarantine": func(w *groupEnv) {
			w.rules.PluginFingerprints = map[string]string{"Fit": "2"}
			w.setProfile()
			w.expectAt(Active, "a", "b")
		},
		"a profile that schedules no groups any more holds that pod alone": func(w *groupEnv) {
			w.rules.Groups = false
			w.setProfile()
			w.expectAt(Held, "a")
			w.expectAt(Active, "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGroupEnv(t)
			w.rules.PluginFingerprints = map[string]string{"Fit": "1"}
			w.setProfile()
			w.addPods(member("a", 1), member("b", 1))
			w.failGroupWithFaults(2, "a", "b")
			w.expectAt(Backoff, "a", "b")
			w.failGroupWithFaults(1, "a", "b")
			history(w)
			w.check()
		})
	}
}

func TestAGroupIsQuarantinedForFaultsAtPreEnqueue(t *testing.T) {
	w := newGroupEnv(t)
	w.rules.PreEnqueue = faultyGate(w.testEnv)
	w.setProfile()
	w.addPods(member("a", 2), member("b", 2))
	w.nodeEvent(nodeLabel, "n")
	w.expectAt(Gated, "a", "b")
	w.nodeEvent(nodeLabel, "n")
	w.expectAt(Held, "a", "b")
	w.groups.RemovePod(member("a", 2))
	w.Delete(pod("a").UID)
	w.expectAt(Gated, "b")
}

func TestAGroupIsQuarantinedUntilTheLastOfItsPodsIsReleased(t *testing.T) {
	w := newGroupEnv(t)
	w.rules.PluginFingerprints = map[string]string{"Fit": "1"}
	w.setProfile()
	w.addPods(member("a", 1), member("b", 1))
	for range 3 {
		w.advance(time.Minute)
		group := w.popGroup("a", "b")
		w.RecordPluginFault(pod("a").UID, filterFault)
		w.clock.Step(time.Minute)
		w.RecordPluginFault(pod("b").UID, filterFault)
		for _, m := range group.Group.Members {
			m.Failed(w.ctx)
		}
		group.FinishGroup(w.ctx, GroupFailed)
	}
	w.advance(4*time.Minute + 30*time.Second) // that of a is over
	w.expectAt(Held, "a", "b")
	w.advance(time.Minute)
	w.expectAt(Active, "a", "b")
}
