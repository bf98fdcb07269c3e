package simulation

import (
	"slices"
	"strings"

	"github.com/berthdev/berth/scheduler/queue"
)

// section is a part of the table: all cells that it has are known beforehand.
type section struct {
	name          string
	rows, columns []string
	// impossible says why a cell cannot be met; empty: it can.
	impossible func(row, column string) string
}

// pluginPoints are the extension points at which Probe's calls fail.
var pluginPoints = []string{
	"QueueingHint", "PreFilter", "Filter", "Reserve", "Unreserve", "Permit", "PreBindPreFlight", "PreBind", "PostBind",
}

// pluginFaultPrefixes begin the counts of plugins' calls that failed; the extension point
// follows.
var pluginFaultPrefixes = []string{"an error in ", "a panic in ", "a plugin's call times out in "}

// queuedStates are the states of a pod in the queue.
var queuedStates = []string{
	stateAdded, string(queue.Active), string(queue.Backoff), string(queue.Unschedulable), string(queue.Gated), string(queue.Held),
	stateTried, stateAtPermit, stateBindingSent, stateBindingTaken, stateReadAgain, statePatched,
}

// podStates are all states of a pod.
func podStates() []string {
	all := slices.Concat(queuedStates, []string{stateNotQueued, stateOnNode})
	for _, place := range []queue.Place{stateAdded, queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated, queue.Held, queue.InFlight} {
		all = append(all, string(place)+deletedMark)
	}
	return append(all, stateDeleted)
}

// eventNames are all events of an informer's objects.
func eventNames(informer string, changes []string) (names []string) {
	for _, what := range slices.Concat([]string{eventAdded, eventDeleted, eventListed, eventReplaced}, changes) {
		names = append(names, informer+": "+what)
	}
	return names
}

func changeNames[T any](changes []fieldChange[T]) (names []string) {
	for _, c := range changes {
		names = append(names, c.name)
	}
	return names
}

// knownNames are what the sources of this package have: see namesInSources.
type knownNames struct {
	// counts are what the simulation counts, and verbs those of requests.
	counts, verbs []string
	// gangs says that histories of gangs are played.
	gangs bool
}

// sections returns all parts of the table.
func sections(known knownNames) []section {
	podEvents := eventNames("pods", changeNames(podChanges))
	otherEvents := slices.Concat(podEvents, eventNames("nodes", changeNames(nodeChanges)))
	if known.gangs {
		otherEvents = append(otherEvents, eventNames("podgroups", []string{eventChanged})...)
	}
	states := podStates()
	var changes, wire []string
	for _, change := range []string{changeDeletes, changeRefused, changeFails, changePauses, changeStarts, changeSwaps} {
		changes = append(changes, change+changeBegins, change+changeEnds)
	}
	for _, verb := range known.verbs {
		wire = append(wire, verb+wireSent, verb+wireArrived)
	}
	ends, requests := []string{endKilled, endFrozen}, requestEnds(known.verbs)
	return []section{
		{countSection, countsOf(known), []string{""}, anyCell},
		{transitionSection, states, states, impossibleTransition},
		{ownEventSection, append(slices.Clone(states), stateNoPod), podEvents, anyCell},
		{otherEventSection, states, otherEvents, anyCell},
		{requestSection, requests, append(slices.Clone(states), stateNoPod), impossibleRequest},
		{lateSection, []string{"bind", "patch", "get", "delete"}, states, anyCell},
		{profileSection, changes, states, anyCell},
		{endSection, ends, states, anyCell},
		{wireSection, ends, wire, anyCell},
		{phaseSection, slices.Concat(requests, pluginFaults()), []string{phaseStart, phaseHandover, phaseSchedules, phaseQuiet}, impossiblePhase},
	}
}

// requestEnds are all ways in which a request of a verb can end.
func requestEnds(verbs []string) (all []string) {
	for _, verb := range verbs {
		all = append(all, verb+" done", verb+" refused")
		if verb == "list" {
			continue // reads of a new leader do not fail
		}
		for _, f := range outcomes {
			all = append(all, verb+" "+f.name)
		}
		all = append(all, "late "+verb+" done", "late "+verb+" refused")
	}
	return all
}

func pluginFaults() (all []string) {
	for _, prefix := range pluginFaultPrefixes {
		points := pluginPoints
		if prefix == pluginFaultPrefixes[2] {
			points = timedPoints
		}
		for _, point := range points {
			all = append(all, prefix+point)
		}
	}
	return all
}

// countsOf are the counts, without those of gangs where there are none.
func countsOf(known knownNames) []string {
	return slices.DeleteFunc(slices.Clone(known.counts), func(what string) bool {
		return !known.gangs && isAboutGangs(what)
	})
}

func isAboutGangs(what string) bool {
	return strings.Contains(what, "gang") || strings.Contains(what, "PodGroup") || strings.Contains(what, "podgroups") || strings.Contains(what, "two members")
}

func anyCell(string, string) string { return "" }

// isGone says whether the API server has no pod in a state.
func isGone(state string) bool { return state == stateDeleted || strings.HasSuffix(state, deletedMark) }
