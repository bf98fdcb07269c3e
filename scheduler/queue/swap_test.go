package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/test/fixture"
)

// everywhere puts one pod into each place, called as the place.
func (w *world) everywhere() *Attempt {
	w.t.Helper()
	w.refused(pod("Unschedulable"), "Fit")
	w.Add(w.ctx, pod("Backoff"))
	w.pop("Backoff").Failed(w.ctx)
	w.gates.Insert("Gate")
	w.Add(w.ctx, pod("Gated"))
	w.gates.Clear()
	w.holds = Hold{Reason: Unsupported}
	w.Add(w.ctx, pod("Parked"))
	w.holds = Hold{}
	w.Add(w.ctx, pod("InFlight"))
	a := w.pop("InFlight")
	w.Add(w.ctx, pod("Active"))
	for _, place := range []Place{Active, Backoff, Unschedulable, Gated, Parked, InFlight} {
		w.wantAt(place, string(place))
	}
	return a
}

// swaps are what happens to pods in every place when their profile changes.
var swaps = map[string]func(w *world, inFlight *Attempt){
	"a swap tries all again, and who backed off goes on doing so": func(w *world, a *Attempt) {
		w.adopt()
		w.wantAt(Active, "Active", "Gated", "Parked")
		w.wantAt(Backoff, "Backoff", "Unschedulable")
		a.Refused(w.ctx, sets.New("Nobody"), nil)
		w.wantAt(Backoff, "Backoff", "Unschedulable", "InFlight")
	},
	"a pause parks all but the pod that is being tried, which follows": func(w *world, a *Attempt) {
		w.holds = Hold{Reason: ProfilePaused}
		w.adopt()
		w.wantAt(Parked, "Active", "Backoff", "Unschedulable", "Gated", "Parked")
		a.Return(w.ctx)
		w.wantAt(Parked, "Active", "Backoff", "Unschedulable", "Gated", "Parked", "InFlight")
	},
	"a new gate is asked about those who were ready": func(w *world, a *Attempt) {
		w.gates.Insert("Gate")
		w.adopt()
		w.wantAt(Gated, "Active", "Backoff", "Unschedulable", "Gated", "Parked")
		a.Done()
	},
	"a deletion parks all, and tells them": func(w *world, a *Attempt) {
		w.told = nil
		w.Abandon("p", Hold{Reason: ProfileDeleted})
		a.Failed(w.ctx)
		w.wantAt(Parked, "Active", "Backoff", "Unschedulable", "Gated", "Parked", "InFlight")
		slices.Sort(w.told)
		if want := []string{"Active ProfileDeleted", "Backoff ProfileDeleted", "Gated ProfileDeleted",
			"InFlight ProfileDeleted", "Parked ProfileDeleted", "Unschedulable ProfileDeleted"}; !slices.Equal(w.told, want) {
			w.t.Errorf("told %v, want %v", w.told, want)
		}
		if held := w.Held(); len(held) != 6 {
			w.t.Errorf("%d pods are held, want 6", len(held))
		}
		if w.Serves("p") {
			w.t.Error("the profile is still served")
		}
	},
	"who was parked by a deletion is tried when the profile comes back, and who backed off goes on doing so": func(w *world, a *Attempt) {
		a.Done()
		w.Abandon("p", Hold{Reason: ProfileDeleted})
		w.adopt()
		w.wantAt(Active, "Active", "Gated", "Parked")
		w.wantAt(Backoff, "Backoff", "Unschedulable")
	},
	"another sort moves everybody to a lane of its own": func(w *world, a *Attempt) {
		w.rules.Sort, w.rules.Less = "Name", byName
		w.adopt()
		a.Refused(w.ctx, sets.New("Fit"), nil)
		if len(w.lanes) != 1 || w.lanes[0].sort != "Name" {
			w.t.Errorf("lanes %v", w.lanes)
		}
		for _, name := range []string{"Active", "Gated", "Parked"} {
			w.pop(name).Done()
		}
	},
}

func TestSwaps(t *testing.T) {
	for sentence, history := range swaps {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			history(w, w.everywhere())
			w.check()
		})
	}
}

func TestDeleteLeavesNothingBehind(t *testing.T) {
	for _, place := range []Place{Active, Backoff, Unschedulable, Gated, Parked, InFlight} {
		t.Run("of a pod that is "+string(place), func(t *testing.T) {
			w := newWorld(t)
			a := w.everywhere()
			w.Delete(pod(string(place)).UID)
			w.wantAt(place)
			a.Failed(w.ctx)
			w.wantAt(InFlight)
			for _, p := range w.pods {
				w.Delete(p.pod.UID)
			}
			w.check()
			left := len(w.dormant) + w.flights.log.Len()
			for _, l := range w.lanes {
				left += l.active.Len() + l.refusals.Len() + l.errors.Len()
			}
			if left != 0 {
				t.Errorf("%d things are left", left)
			}
		})
	}
}

func TestLanesOfSeveralProfiles(t *testing.T) {
	w := newWorld(t)
	same, other := w.rules, w.rules
	other.Sort, other.Less = "Name", byName
	w.Adopt(w.ctx, "q", &same)
	w.Adopt(w.ctx, "r", &other)
	w.Add(w.ctx, ranked("low", 1))
	w.Add(w.ctx, fixture.Pod("high").Scheduler("q").Priority(9).Obj())
	for _, name := range []string{"z", "y", "x"} {
		w.Add(w.ctx, fixture.Pod(name).Scheduler("r").Obj())
	}
	w.check()
	if len(w.lanes) != 2 {
		t.Fatalf("%d lanes, want one for each sort", len(w.lanes))
	}
	popped := map[string][]string{}
	for range 5 {
		a := w.TryPop()
		sort := w.Queue.rules[a.Pod.Spec.SchedulerName].Sort
		popped[sort] = append(popped[sort], a.Pod.Name)
		if n := len(popped["Priority"]) - len(popped["Name"]); n > 1 || n < -2 {
			t.Errorf("the lanes do not take turns: %v", popped)
		}
	}
	if !slices.Equal(popped["Priority"], []string{"high", "low"}) || !slices.Equal(popped["Name"], []string{"x", "y", "z"}) {
		t.Errorf("popped %v: priorities count across profiles with the same sort", popped)
	}
}

func TestAnAttemptSaysWhoAdmittedItsPod(t *testing.T) {
	w := newWorld(t)
	w.rules.Hash = "one"
	w.adopt()
	w.Add(w.ctx, pod("a"))
	a := w.pop("a")
	w.rules.Hash = "two"
	w.adopt()
	if a.Admitted != "one" {
		t.Errorf("admitted by %q, want one", a.Admitted)
	}
	a.Return(w.ctx)
	if a := w.pop("a"); a.Admitted != "two" {
		t.Errorf("admitted by %q after the swap, want two", a.Admitted)
	}
}

func TestAPanickingSortIsNotAsked(t *testing.T) {
	// The runtime recovers Less; what it answers then is that nobody comes first.
	w := newWorld(t)
	w.rules.Less = func(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false }
	w.adopt()
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

func TestWhatChangesWhilePreEnqueueIsAskedIsHeard(t *testing.T) {
	for sentence, c := range map[string]struct {
		meanwhile func(w *world)
		want      Place
	}{
		"a deletion of the pod":         {func(w *world) { w.Delete(pod("a").UID) }, ""},
		"a deletion of the profile":     {func(w *world) { w.Abandon("p", Hold{Reason: ProfileDeleted}) }, Parked},
		"the gate's own event":          {func(w *world) { w.gates.Clear(); w.happens(nodeLabel, "n") }, Active},
		"a pause":                       {func(w *world) { w.holds = Hold{Reason: ProfilePaused}; w.adopt() }, Parked},
		"an event that does not matter": {func(w *world) { w.gates.Clear(); w.happens(nodeAdd, "n") }, Gated},
		"an update of the pod":          {func(w *world) { w.gates.Clear(); w.Update(w.ctx, pod("a"), pod("a"), podLabel) }, Active},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.gates.Insert("Gate")
			ask, once := w.rules.PreEnqueue, false
			rules := w.rules
			rules.PreEnqueue = func(ctx context.Context, p *v1.Pod, last string) string {
				gate := ask(ctx, p, last)
				if !once {
					once = true
					c.meanwhile(w)
				}
				return gate
			}
			w.Adopt(w.ctx, "p", &rules)
			w.Add(w.ctx, pod("a"))
			if got := w.where(pod("a").UID); got != c.want {
				t.Errorf("the pod is %q, want %q", got, c.want)
			}
			w.check()
		})
	}
}

func TestBackoff(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 700e6, time.UTC)
	for sentence, c := range map[string]struct {
		refusals, errors int
		initial, longest time.Duration
		want             time.Duration // after the full second before start
	}{
		"a pod that was never tried does not wait":       {0, 0, time.Second, 10 * time.Second, -1},
		"the first refusal waits as long as the initial": {1, 0, time.Second, 10 * time.Second, time.Second},
		"the third waits four times as long":             {3, 0, time.Second, 10 * time.Second, 4 * time.Second},
		"the fifth is bounded":                           {5, 0, time.Second, 10 * time.Second, 10 * time.Second},
		"the hundredth does not overflow":                {100, 0, time.Second, 10 * time.Second, 10 * time.Second},
		"while errors last they count":                   {5, 1, time.Second, 10 * time.Second, time.Second},
		"a longest of 0 means no backoff":                {5, 0, time.Second, 0, -1},
		"an initial above the longest is bounded":        {1, 0, time.Minute, 10 * time.Second, 10 * time.Second},
		"the end is rounded down to the window's border": {2, 0, 1100 * time.Millisecond, 10 * time.Second, 2 * time.Second},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := &Rules{InitialBackoff: c.initial, MaxBackoff: c.longest}
			got := r.backoff(&Pod{timestamp: start, unschedulableCount: c.refusals, consecutiveErrors: c.errors})
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

// Something that is no rule of the profile's may hold pods, such as the labels
// of their namespaces.
func TestReconsider(t *testing.T) {
	for sentence, c := range map[string]struct {
		before, after Hold
		concerned     bool
		want          Place
	}{
		"a pod that nothing holds any more":   {before: Hold{Reason: NamespaceNotAllowed}, concerned: true, want: Active},
		"a pod that is held now":              {after: Hold{Reason: NamespaceNotAllowed}, concerned: true, want: Parked},
		"a pod that it does not concern":      {before: Hold{Reason: NamespaceNotAllowed}, want: Parked},
		"a pod that is held all the same":     {before: Hold{Reason: NamespaceNotAllowed}, after: Hold{Reason: ProfilePaused}, concerned: true, want: Parked},
		"a pod that nothing holds, as before": {concerned: true, want: Active},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			w.holds = c.before
			w.adopt()
			w.Add(w.ctx, pod("a"))
			w.holds = c.after
			w.Reconsider(w.ctx, "p", func(*v1.Pod) bool { return c.concerned })
			if got := w.where(pod("a").UID); got != c.want {
				t.Errorf("the pod is %q, want %q", got, c.want)
			}
			w.check()
		})
	}
}

func TestPodsOfAProfileThatDoesNotRunAreHeld(t *testing.T) {
	w := newWorld(t)
	w.refused(pod("before"), "Fit")
	hold := Hold{Reason: ProfileNotRunning, Message: "it does not run"}
	w.Withhold("p", hold)
	w.Add(w.ctx, pod("after"))
	w.wantAt(Parked, "before", "after")
	if want := []string{"before ProfileNotRunning", "after ProfileNotRunning"}; !slices.Equal(w.told, want) {
		t.Errorf("told %v, want %v", w.told, want)
	}
	w.adopt()
	w.wantAt(Active, "after")
	w.check()

	w.Abandon("p", Hold{Reason: ProfileDeleted})
	w.Add(w.ctx, pod("later"))
	if w.Has(pod("later").UID) {
		t.Error("a pod of a deleted profile is kept")
	}
	w.Withhold("q", hold)
	w.Add(w.ctx, fixture.Pod("other").Scheduler("q").Obj())
	if hold, is := w.HoldOf(fixture.Pod("other").Obj().UID); !is || hold.Reason != ProfileNotRunning {
		t.Errorf("the pod of a profile that never ran is held for %+v", hold)
	}
}
