package simulation

import (
	"slices"
	"strings"
)

// Why cells of the table cannot be met. A run that meets one fails: its reason is wrong, or has
// become so.
const (
	sameState       = "a pod that stays in a state does not go there"
	newUID          = "a pod that is created again has another UID"
	deletedByItself = "the deletion of a pod is a step of its own, and the queue hears of it in a later one"
	aboutNoPod      = "such a request is about no pod"
	noSuchPod       = "the API server has no such pod"
	boundOnce       = "the API server binds no pod that has a node"
	noPodByName     = "a request names a pod, and a deleted one has no name any more"
	faultsEnded     = "faults have ended"
	noFence         = "no patch of a new leader fails, since a pod that it cannot fence is not simulated"
	notPlaced       = "a leader takes over until it has placed a pod"
	notStarted      = "nothing is tried before the informers have listed"
)

// impossibleTransition says nothing of Bindings on their way: a Binding of an earlier attempt that was
// given up, or of an earlier pod of the name, may be on its way in each state.
func impossibleTransition(from, to string) string {
	queued := slices.Contains(queuedStates, from)
	switch {
	case from == to:
		return sameState
	case isGone(from) && !isGone(to), from == stateDeleted:
		return newUID
	case queued && to == stateDeleted, !queued && !isGone(from) && isGone(to) && to != stateDeleted, queued && isGone(to) && to != inQueue(from)+deletedMark:
		return deletedByItself
	}
	return ""
}

// inQueue is the place that a pod in a state has in the queue.
func inQueue(state string) string {
	if slices.Contains([]string{stateAtPermit, stateBindingSent, stateBindingTaken, stateReadAgain, statePatched}, state) {
		return stateTried
	}
	return state
}

func impossibleRequest(row, state string) string {
	isAnswer, isLate := strings.HasSuffix(row, " done"), strings.HasPrefix(row, "late ")
	switch verb := verbOf(row); {
	case verb == "list" || verb == "journal":
		if state != stateNoPod {
			return aboutNoPod
		}
	case state == stateDeleted:
		return noPodByName
	// A process that has just begun knows no pod when a request of an earlier one arrives late.
	case isAnswer && isGone(state), isAnswer && state == stateNoPod && verb != "patch" && !isLate:
		return noSuchPod
	case isAnswer && state == stateOnNode && verb == "bind":
		return boundOnce
	}
	return ""
}

// verbOf is the verb of a row about requests.
func verbOf(row string) string {
	words := strings.Fields(row)
	if words[0] == "late" {
		return words[1]
	}
	return words[0]
}

func impossiblePhase(row, phase string) string {
	isLate, isEnd := strings.HasPrefix(row, "late "), strings.HasSuffix(row, " done") || strings.HasSuffix(row, " refused")
	isTimeout := strings.HasPrefix(row, pluginFaultPrefixes[2])
	verb := verbOf(row)
	switch {
	case phase == phaseQuiet && !isEnd && !isTimeout:
		return faultsEnded
	case phase == phaseHandover && verb == "patch" && !isEnd:
		return noFence
	case phase == phaseHandover && verb == "bind" && !isLate:
		return notPlaced
	case phase == phaseStart && verb == "bind" && !isLate:
		return notStarted
	}
	return ""
}
