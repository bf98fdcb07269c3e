package simulation

import (
	"fmt"

	"github.com/berthdev/berth/scheduler/queue"
)

// promised are the things that a thousand seeds must have seen: every act,
// every fate of a request, every place where a pod can be at rest, and the
// turns of fortune that invariants exist for.
func promised() []string {
	all := []string{
		"a deletion seen only as a gap", "another object under the same name after a gap",
		"a swap", "a rejection", "a plugin that cannot be built", "a plugin that panics when it is built",
		"a pod waits at Permit", "unreserved", "post-bound",
		"late bind done", "late bind refused", "late patch done",
		witnessName + " closed", orderName + " closed",
		"a swap meets a pod at Permit", "a swap meets a Binding under way", "a swap meets a refused pod",
		"event FailedScheduling", "event Scheduled", "event Preempted",
		"a victim is deleted", "a victim is stopped in memory", "a victim comes again",
	}
	all = append(all, handovers()...)
	for _, point := range watchedPoints {
		all = append(all, "a plugin comes back late from "+point)
	}
	for _, k := range kinds {
		all = append(all, k.name)
	}
	for _, verb := range []string{"bind", "patch", "get", "delete"} {
		all = append(all, verb+" done", verb+" refused")
		for _, f := range fates {
			all = append(all, verb+" "+f.name)
		}
	}
	for _, point := range []string{
		"QueueingHint", "PreFilter", "Filter", "Reserve", "Unreserve", "Permit", "PreBindPreFlight", "PreBind", "PostBind",
	} {
		all = append(all, "a panic in "+point)
		if point != "Unreserve" && point != "PostBind" {
			all = append(all, "an error in "+point)
		}
	}
	for _, place := range []queue.Place{queue.Unschedulable, queue.Gated, queue.Held} {
		all = append(all, fmt.Sprintf("at rest: %s", place))
	}
	return all
}

// countSwap notes what a swap met.
func (w *world) countSwap(name string) {
	w.count("a swap")
	for _, pod := range w.server.sortedPods() {
		if pod.Spec.SchedulerName != name {
			continue
		}
		if w.sched.Components().Waiting.Has(pod.UID) {
			w.count("a swap meets a pod at Permit")
		}
		if w.sched.Components().Queue.Places()[pod.UID] == queue.Unschedulable {
			w.count("a swap meets a refused pod")
		}
	}
	for _, r := range w.requests {
		if r.verb == "bind" {
			w.count("a swap meets a Binding under way")
		}
	}
}
