package profile

import (
	"fmt"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/queue"
)

// WakesOn are the events that a plugin registered for, as resource/action,
// sorted. The slice is the Generation's own.
func (g *Generation) RequeueEvents(plugin string) []string { return g.requeueEvents[plugin] }

// Wakes names the events of each plugin, as resource/action, sorted.
func RequeueEvents(hints []queue.Hint) map[string][]string {
	wakes := map[string][]string{}
	for _, hint := range hints {
		wakes[hint.Plugin] = append(wakes[hint.Plugin], eventNames(hint.Event)...)
	}
	for plugin, names := range wakes {
		slices.Sort(names)
		wakes[plugin] = slices.Compact(names)
	}
	return wakes
}

// eventNames names the parts of a registered event. What the resource says
// already the action need not: Node/UpdateTaint, not Node/UpdateNodeTaint.
func eventNames(e fwk.ClusterEvent) (names []string) {
	if e.Resource == fwk.WildCard && e.ActionType == fwk.All {
		return []string{"*/*"}
	}
	name := func(action string) {
		for _, kind := range []string{"UpdateNode", "UpdatePod"} {
			if what, ok := strings.CutPrefix(action, kind); ok {
				action = "Update" + what
			}
		}
		if fault.TaintsWakeUntold && action == "UpdateTaint" {
			return
		}
		names = append(names, fmt.Sprintf("%v/%s", e.Resource, action))
	}
	all := e.ActionType
	if all&fwk.Update == fwk.Update {
		name("Update")
		all &^= fwk.Update
	}
	for bit := fwk.ActionType(1); bit <= all; bit <<= 1 {
		if all&bit != 0 {
			name(bit.String())
		}
	}
	return names
}
