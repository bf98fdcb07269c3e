package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/support/fixture"
)

// onePodInEachPlace adds one pod in each place, with the name of the place. It returns
// the attempt of the pod in flight.
func (w *testEnv) onePodInEachPlace() *Attempt {
	w.t.Helper()
	w.addRejectedBy(pod("Unschedulable"), "Fit")
	w.Add(w.ctx, pod("Backoff"))
	w.pop("Backoff").Failed(w.ctx)
	w.closedGates.Insert("Gate")
	w.Add(w.ctx, pod("Gated"))
	w.closedGates.Clear()
	w.hold = Hold{Reason: Unsupported}
	w.Add(w.ctx, pod("Held"))
	w.hold = Hold{}
	w.Add(w.ctx, pod("InFlight"))
	a := w.pop("InFlight")
	w.Add(w.ctx, pod("Active"))
	for _, place := range []Place{Active, Backoff, Unschedulable, Gated, Held, InFlight} {
		w.expectAt(place, string(place))
	}
	return a
}

// swaps are changes of a profile that has a pod in every place.
var swaps = map[string]func(w *testEnv, inFlight *Attempt){
	"a swap requeues all pods, and pods that backed off go on backing off": func(w *testEnv, a *Attempt) {
		w.setProfile()
		w.expectAt(Active, "Active", "Gated", "Held")
		w.expectAt(Backoff, "Backoff", "Unschedulable")
		a.Refused(w.ctx, sets.New("Other"), nil)
		w.expectAt(Backoff, "Backoff", "Unschedulable", "InFlight")
	},
	"a pause holds all pods, the pod in flight when its attempt ends": func(w *testEnv, a *Attempt) {
		w.hold = Hold{Reason: ProfilePaused}
		w.setProfile()
		w.expectAt(Held, "Active", "Backoff", "Unschedulable", "Gated", "Held")
		a.Return(w.ctx)
		w.expectAt(Held, "Active", "Backoff", "Unschedulable", "Gated", "Held", "InFlight")
	},
	"a new gate is applied to active pods": func(w *testEnv, a *Attempt) {
		w.closedGates.Insert("Gate")
		w.setProfile()
		w.expectAt(Gated, "Active", "Backoff", "Unschedulable", "Gated", "Held")
		a.Done()
	},
	"a deletion holds all pods and notifies of it": func(w *testEnv, a *Attempt) {
		w.TakeHoldChanges()
		w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
		a.Failed(w.ctx)
		w.expectAt(Held, "Active", "Backoff", "Unschedulable", "Gated", "Held", "InFlight")
		slices.Sort(w.takeHolds())
		if want := []string{"Active ProfileDeleted", "Backoff ProfileDeleted", "Gated ProfileDeleted",
			"Held ProfileDeleted", "InFlight ProfileDeleted", "Unschedulable ProfileDeleted"}; !slices.Equal(w.notified, want) {
			w.t.Errorf("notified of %v, want %v", w.notified, want)
		}
		if w.Serves("p") {
			w.t.Error("the profile is still served")
		}
	},
	"pods held by a deletion are requeued when the profile comes back, and pods that backed off go on backing off": func(w *testEnv, a *Attempt) {
		a.Done()
		w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
		w.setProfile()
		w.expectAt(Active, "Active", "Gated", "Held")
		w.expectAt(Backoff, "Backoff", "Unschedulable")
	},
	"another sort moves all pods to a new sub-queue": func(w *testEnv, a *Attempt) {
		w.rules.Sort, w.rules.Less = "Name", byName
		w.setProfile()
		a.Refused(w.ctx, sets.New("Fit"), nil)
		if len(w.subQueues) != 1 || w.subQueues[0].sort != "Name" {
			w.t.Errorf("sub-queues %v", w.subQueues)
		}
		for _, name := range []string{"Active", "Gated", "Held"} {
			w.pop(name).Done()
		}
	},
}

func TestSwaps(t *testing.T) {
	for name, history := range swaps {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			history(w, w.onePodInEachPlace())
			w.check()
		})
	}
}

func TestDeleteLeavesNothingBehind(t *testing.T) {
	for _, place := range []Place{Active, Backoff, Unschedulable, Gated, Held, InFlight} {
		t.Run("of a pod that is "+string(place), func(t *testing.T) {
			w := newTestEnv(t)
			a := w.onePodInEachPlace()
			w.Delete(pod(string(place)).UID)
			w.expectAt(place)
			a.Failed(w.ctx)
			w.expectAt(InFlight)
			for _, p := range w.pods {
				w.Delete(p.pod.UID)
			}
			w.check()
			left := len(w.unschedulable) + w.inFlight.entries.Len()
			for _, l := range w.subQueues {
				left += l.active.Len() + l.backoff.Len() + l.errorBackoff.Len()
			}
			if left != 0 {
				t.Errorf("%d pods and log entries are left", left)
			}
		})
	}
}

func TestSubQueuesOfSeveralProfiles(t *testing.T) {
	w := newTestEnv(t)
	same, other := w.rules, w.rules
	other.Sort, other.Less = "Name", byName
	w.SetProfile(w.ctx, "q", &same)
	w.SetProfile(w.ctx, "r", &other)
	w.Add(w.ctx, podWithPriority("low", 1))
	w.Add(w.ctx, fixture.Pod("high").SchedulerName("q").Priority(9).Obj())
	for _, name := range []string{"z", "y", "x"} {
		w.Add(w.ctx, fixture.Pod(name).SchedulerName("r").Obj())
	}
	w.check()
	if len(w.subQueues) != 2 {
		t.Fatalf("%d sub-queues, want one for each sort", len(w.subQueues))
	}
	popped := map[string][]string{}
	for range 5 {
		a := w.TryPop()
		sort := w.Queue.rules[a.Pod.Spec.SchedulerName].Sort
		popped[sort] = append(popped[sort], a.Pod.Name)
		if n := len(popped["Priority"]) - len(popped["Name"]); n > 1 || n < -2 {
			t.Errorf("the sub-queues are not popped in turn: %v", popped)
		}
	}
	if !slices.Equal(popped["Priority"], []string{"high", "low"}) || !slices.Equal(popped["Name"], []string{"x", "y", "z"}) {
		t.Errorf("popped %v, want the order of priorities across profiles with the same sort", popped)
	}
}

func TestAttemptAdmittedBy(t *testing.T) {
	w := newTestEnv(t)
	w.rules.Hash = "one"
	w.setProfile()
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	w.rules.Hash = "two"
	w.setProfile()
	if a.AdmittedBy != "one" {
		t.Errorf("admitted by %q, want one", a.AdmittedBy)
	}
	a.Return(w.ctx)
	if a := w.pop("a"); a.AdmittedBy != "two" {
		t.Errorf("admitted by %q after the swap, want two", a.AdmittedBy)
	}
}

func TestPodsArePoppedWhenLessPanics(t *testing.T) {
	// The framework recovers Less, which then returns false for all pods.
	w := newTestEnv(t)
	w.rules.Less = func(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false }
	w.setProfile()
	for _, name := range []string{"a", "b", "c"} {
		w.Add(w.ctx, pod(name))
	}
	popped := sets.New[string]()
	for a := w.TryPop(); a != nil; a = w.TryPop() {
		popped.Insert(a.Pod.Name)
	}
	if popped.Len() != 3 {
		t.Errorf("popped %v, want all three", popped)
	}
}

func TestChangesDuringPreEnqueueAreReplayed(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(w *testEnv)
		want      Place
	}{
		"the pod is deleted":         {func(w *testEnv) { w.Delete(pod("a").UID) }, ""},
		"the profile is deleted":     {func(w *testEnv) { w.RemoveProfile("p", Hold{Reason: ProfileDeleted}) }, Held},
		"an event of the gate":       {func(w *testEnv) { w.closedGates.Clear(); w.nodeEvent(nodeLabel, "n") }, Active},
		"the profile is paused":      {func(w *testEnv) { w.hold = Hold{Reason: ProfilePaused}; w.setProfile() }, Held},
		"an event of another plugin": {func(w *testEnv) { w.closedGates.Clear(); w.nodeEvent(nodeAdd, "n") }, Gated},
		"the pod is updated":         {func(w *testEnv) { w.closedGates.Clear(); w.Update(w.ctx, pod("a"), pod("a"), podLabel) }, Active},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.closedGates.Insert("Gate")
			preEnqueue, called := w.rules.PreEnqueue, false
			rules := w.rules
			rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string {
				gate := preEnqueue(ctx, p, last)
				if !called {
					called = true
					c.meanwhile(w)
				}
				return gate
			}
			w.SetProfile(w.ctx, "p", &rules)
			w.Add(w.ctx, pod("a"))
			if got := w.placeOf(pod("a").UID); got != c.want {
				t.Errorf("the pod is %q, want %q", got, c.want)
			}
			w.check()
		})
	}
}

func TestBackoff(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 700e6, time.UTC)
	for name, c := range map[string]struct {
		refusals, errors int
		initial, maximum time.Duration
		want             time.Duration // after the full second before start
	}{
		"a pod that was never tried has no backoff":       {0, 0, time.Second, 10 * time.Second, -1},
		"the first refusal waits for the initial backoff": {1, 0, time.Second, 10 * time.Second, time.Second},
		"the third waits four times as long":              {3, 0, time.Second, 10 * time.Second, 4 * time.Second},
		"the fifth waits for the maximum":                 {5, 0, time.Second, 10 * time.Second, 10 * time.Second},
		"the hundredth does not overflow":                 {100, 0, time.Second, 10 * time.Second, 10 * time.Second},
		"while errors last, errors count":                 {5, 1, time.Second, 10 * time.Second, time.Second},
		"a maximum of 0 means no backoff":                 {5, 0, time.Second, 0, -1},
		"an initial backoff above the maximum is bounded": {1, 0, time.Minute, 10 * time.Second, 10 * time.Second},
		"the end is rounded down to the second":           {2, 0, 1100 * time.Millisecond, 10 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Rules{InitialBackoff: c.initial, MaxBackoff: c.maximum}
			got := r.backoffExpiration(&Entity{timestamp: start, unschedulableCount: c.refusals, consecutiveErrors: c.errors}, newBackoffWindows(start))
			want := start.Truncate(time.Second).Add(c.want)
			if c.want < 0 {
				want = time.Time{}
			}
			if !got.Equal(want) {
				t.Errorf("until %v, want %v", got, want)
			}
		})
	}
}

// The end of a backoff has a monotonic clock, or it would not come while the wall clock is set back;
// pods whose backoff ends in the same window have the same end.
func TestBackoffIsMonotonic(t *testing.T) {
	now := time.Now()
	windows, r := newBackoffWindows(now), &Rules{InitialBackoff: time.Second, MaxBackoff: time.Second}
	start := windows.startOf(now)
	var ends []time.Time
	for _, after := range []time.Duration{0, time.Millisecond, time.Second - 1} {
		ends = append(ends, r.backoffExpiration(&Entity{timestamp: start.Add(after), unschedulableCount: 1}, windows))
	}
	for _, end := range ends {
		if end == end.Round(0) { // Round drops a monotonic clock
			t.Errorf("%v has no monotonic clock", end)
		}
		if !end.Equal(ends[0]) || end.Sub(start) != time.Second {
			t.Errorf("the backoff ends %v after the window's start, want a second", end.Sub(start))
		}
	}
}

// Something that is not in the rules may hold pods, such as the labels of their
// namespaces.
func TestReconsider(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Hold
		concerned     bool
		want          Place
	}{
		"a pod that is not held any more":       {before: Hold{Reason: NamespaceNotAllowed}, concerned: true, want: Active},
		"a pod that is held now":                {after: Hold{Reason: NamespaceNotAllowed}, concerned: true, want: Held},
		"a pod that is not concerned":           {before: Hold{Reason: NamespaceNotAllowed}, want: Held},
		"a pod that is held for another reason": {before: Hold{Reason: NamespaceNotAllowed}, after: Hold{Reason: ProfilePaused}, concerned: true, want: Held},
		"a pod that was not held before":        {concerned: true, want: Active},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			w.hold = c.before
			w.setProfile()
			w.Add(w.ctx, pod("a"))
			w.hold = c.after
			w.Reconsider(w.ctx, "p", func(*v1.Pod) bool { return c.concerned })
			if got := w.placeOf(pod("a").UID); got != c.want {
				t.Errorf("the pod is %q, want %q", got, c.want)
			}
			w.check()
		})
	}
}

func TestPodsOfAProfileThatDoesNotRunAreHeld(t *testing.T) {
	w := newTestEnv(t)
	w.addRejectedBy(pod("before"), "Fit")
	hold := Hold{Reason: ProfileNotRunning, Message: "it does not run"}
	w.HoldProfile("p", hold)
	w.Add(w.ctx, pod("after"))
	w.expectAt(Held, "before", "after")
	if want := []string{"after ProfileNotRunning", "before ProfileNotRunning"}; !slices.Equal(w.takeHolds(), want) {
		t.Errorf("notified of %v, want %v", w.notified, want)
	}
	w.setProfile()
	w.expectAt(Active, "after")
	w.check()

	w.RemoveProfile("p", Hold{Reason: ProfileDeleted})
	w.Add(w.ctx, pod("later"))
	if w.Has(pod("later").UID) {
		t.Error("a pod of a deleted profile was added")
	}
	w.HoldProfile("q", hold)
	w.Add(w.ctx, fixture.Pod("other").SchedulerName("q").Obj())
	if hold, is := w.holdOf(fixture.Pod("other").Obj().UID); !is || hold.Reason != ProfileNotRunning {
		t.Errorf("the pod of a profile that never ran is held for %+v", hold)
	}
}

func TestThePodsOfAReleasedProfileAreForgotten(t *testing.T) {
	hold := Hold{Reason: ProfileNotRunning, Message: "it does not run"}
	for name, history := range map[string]func(w *testEnv){
		"it had no pods": func(w *testEnv) { w.HoldProfile("p", hold) },
		"its pods are held": func(w *testEnv) {
			w.addPod("a")
			w.HoldProfile("p", hold)
			w.addPod("b")
		},
		"its pods are in each place before": func(w *testEnv) {
			a := w.onePodInEachPlace()
			w.HoldProfile("p", hold)
			w.t.Cleanup(func() { a.Failed(w.ctx); w.expectAt(Held) })
		},
		"its pods are groups": func(w *testEnv) {
			w.rules.Groups = true
			w.setProfile()
			w.Add(w.ctx, member("c", 1))
			w.Add(w.ctx, member("d", 1))
			w.HoldProfile("p", hold)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
			var want, got []string
			for _, p := range w.pods {
				want = append(want, p.pod.Name)
			}
			for _, p := range w.ReleaseProfile(w.ctx, "p") {
				got = append(got, p.Name)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("released %q, want %q", got, want)
			}
			w.check()
			w.addPod("later")
			if left := len(w.pods) + len(w.podGroups) + len(w.TakeHoldChanges()); left > 0 {
				t.Errorf("%d pods, groups and changes of holds are left", left)
			}
			w.expectNothingOf("p")
		})
	}
	t.Run("a profile that is served keeps its pods", func(t *testing.T) {
		w := newTestEnv(t)
		w.addPod("a")
		if released := w.ReleaseProfile(w.ctx, "p"); len(released) > 0 {
			t.Errorf("released %d pods", len(released))
		}
		w.expectAt(Active, "a")
	})
}

// expectNothingOf checks that the queue stores nothing by the name of a profile.
func (w *testEnv) expectNothingOf(name string) {
	w.t.Helper()
	if hold, found := w.Queue.profileHolds[name]; found {
		w.t.Errorf("the queue still stores why pods of profile %s are held: %s", name, hold.Reason)
	}
	if d, found := w.Queue.deficits[name]; found {
		w.t.Errorf("the queue still stores the deficit of profile %s: %v", name, d.amount)
	}
}

// addPod adds a pod of profile p.
func (w *testEnv) addPod(name string) *v1.Pod {
	pod := fixture.Pod(name).SchedulerName("p").Obj()
	w.Add(w.ctx, pod)
	return pod
}

func TestADeletedProfileLeavesNothingInTheQueue(t *testing.T) {
	deleted := Hold{Reason: ProfileDeleted, Message: "deleted"}
	for name, history := range map[string]func(w *testEnv){
		"it had no pods": func(w *testEnv) { w.RemoveProfile("p", deleted) },
		"its pods were deleted before": func(w *testEnv) {
			w.Delete(w.addPod("a").UID)
			w.RemoveProfile("p", deleted)
		},
		"its pods are deleted afterwards": func(w *testEnv) {
			pod := w.addPod("a")
			w.RemoveProfile("p", deleted)
			w.Delete(pod.UID)
		},
		"its last pod is bound afterwards": func(w *testEnv) {
			w.addPod("a")
			attempt := w.TryPop()
			w.RemoveProfile("p", deleted)
			attempt.Done()
		},
		"it has a deficit": func(w *testEnv) {
			w.RecordLoopTime("p", time.Minute, 1)
			w.RemoveProfile("p", deleted)
		},
		"its last attempt is slow and ends afterwards": func(w *testEnv) {
			w.RemoveProfile("p", deleted)
			w.RecordLoopTime("p", time.Minute, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestEnv(t)
			history(w)
			w.expectNothingOf("p")
		})
	}
}

func TestPodsOfADeletedProfileStayHeldWhileAnyIsLeft(t *testing.T) {
	w := newTestEnv(t)
	a, b := w.addPod("a"), w.addPod("b")
	attempt := w.TryPop()
	other := b
	if attempt.Pod.UID == b.UID {
		other = a
	}
	w.RemoveProfile("p", Hold{Reason: ProfileDeleted, Message: "deleted"})
	w.Delete(other.UID)
	attempt.Failed(w.ctx)
	if hold, _ := w.holdOf(attempt.Pod.UID); hold.Reason != ProfileDeleted {
		t.Errorf("a pod whose attempt ends after its profile was deleted is held for %q, want %s", hold.Reason, ProfileDeleted)
	}
	w.Delete(attempt.Pod.UID)
	w.expectNothingOf("p")
}
