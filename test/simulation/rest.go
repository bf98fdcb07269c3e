package simulation

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/scheduler/queue"
)

// checkStill is what is true when nothing but time can move.
func (w *world) checkStill() {
	for _, pod := range w.server.sortedPods() {
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && w.sched.Components().Waiting.Has(pod.UID) {
			w.fail("%s waits at Permit, and is being deleted", describe(pod))
		}
	}
}

// still says whether nothing but time can move, and all that the watches saw
// was told.
func (w *world) still() bool {
	if len(w.requests) > 0 || len(w.tasks.runnable()) > 0 {
		return false
	}
	for _, watch := range w.watches {
		if watch.behind() || len(watch.notices) > 0 {
			return false
		}
	}
	return true
}

// heal ends all faults and all acts, lets everything come to rest and looks at
// what is left.
func (w *world) heal() {
	if w.fault != nil {
		return
	}
	w.healed = true
	w.say("nothing goes wrong any more")
	for _, pod := range w.server.sortedPods() {
		if pod.Labels[permitLabel] != "" {
			w.edit(pod, "is permitted", func(p *v1.Pod) { delete(p.Labels, permitLabel) })
		}
	}
	if len(w.server.nodes) == 0 {
		// Without nodes, pods are tried for ever, as upstream.
		addNode(w, w.dice)
	}
	const patience = 20000
	for n := 0; w.fault == nil && !w.atRest(); n++ {
		if n == patience {
			w.fail("the world does not come to rest; places: %v", w.places())
		}
		w.step()
	}
	if w.fault == nil {
		w.checkAtRest()
	}
}

// atRest says whether nothing but clocks will ever move.
func (w *world) atRest() bool {
	if len(w.ghosts) > 0 || len(w.leaving) > 0 || !w.still() {
		return false
	}
	for _, place := range w.sched.Components().Queue.Places() {
		if place == queue.Active || place == queue.Backoff || place == queue.InFlight || place == "" {
			return false
		}
	}
	for _, p := range w.profiles {
		if p.runs != nil && w.sched.Components().Queue.Counts(p.name).Quarantined > 0 {
			return false // it comes back when its time is over
		}
	}
	return w.clock.quiet() && w.sched.Components().Waiting.Len() == 0
}

func (w *world) places() map[string]int {
	counts := map[string]int{}
	for _, place := range w.sched.Components().Queue.Places() {
		counts[string(place)]++
	}
	return counts
}

// checkAtRest is what is true when everything came to rest.
func (w *world) checkAtRest() {
	w.checkAlways()
	w.checkProfiles()
	w.checkWaiting()
	w.checkCache()
	if markers, kept := w.sched.Components().Queue.InFlightCounts(); markers+kept > 0 {
		w.fail("the log of events keeps %d markers and %d events", markers, kept)
	}
	for _, p := range w.probes {
		if len(p.reserved) > 0 {
			w.fail("reserved and neither bound nor unreserved: %v", p.reserved)
		}
	}
}

// checkProfiles holds what runs to what was brought to run last, and nothing
// else is left open.
func (w *world) checkProfiles() {
	open := 0
	for _, p := range w.profiles {
		running, ok := w.sched.Profiles().Running(p.name)
		if ok {
			open++
		}
		if ok != (p.runs != nil) {
			w.fail("profile %s runs: %v, want %v", p.name, ok, p.runs)
		} else if ok && w.markOf[running.Blueprint.Hash] != p.runs.mark {
			w.fail("profile %s runs mark %d, want %d", p.name, w.markOf[running.Blueprint.Hash], p.runs.mark)
		}
	}
	if w.open != open {
		w.fail("%d generations are open, and %d profiles run", w.open, open)
	}
}

// checkWaiting finds every pod that waits in exactly one place, and none there
// that need not wait.
func (w *world) checkWaiting() {
	places := w.sched.Components().Queue.Places()
	for _, pod := range w.server.sortedPods() {
		place, queued := places[pod.UID]
		delete(places, pod.UID)
		if p := w.profileOf(pod); p != nil && isPending(pod) {
			w.checkPlace(pod, p, place, queued)
		} else if queued && pod.DeletionTimestamp == nil {
			w.fail("%s is queued as %s and has nothing to wait for", describe(pod), place)
		}
	}
	for uid := range places {
		w.fail("UID %s is queued and no such pod exists", uid)
	}
	w.checkNominations()
}

func (w *world) profileOf(pod *v1.Pod) *profile {
	for _, p := range w.profiles {
		if p.name == pod.Spec.SchedulerName {
			return p
		}
	}
	return nil
}

func (w *world) checkPlace(pod *v1.Pod, p *profile, place queue.Place, queued bool) {
	want := queue.Unschedulable
	switch {
	case p.runs == nil:
		if queued && place != queue.Held {
			w.fail("%s is %s, and its profile does not run", describe(pod), place)
		}
		return
	case p.paused, len(pod.Spec.ResourceClaims) > 0:
		want = queue.Held
	case len(pod.Spec.SchedulingGates) > 0, !p.runs.withoutProbe && pod.Labels[holdLabel] != "":
		want = queue.Gated
	}
	w.count("at rest: " + string(want))
	if place != want {
		w.fail("%s is at %q, want %s", describe(pod), place, want)
		return
	}
	if want == queue.Unschedulable {
		if node, ok := w.fits(pod, p); ok {
			w.fail("%s waits, and there is room for it on %s", describe(pod), node)
		}
	}
}
