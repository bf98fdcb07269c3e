package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/queue"
)

// subscribe subscribes to the events that the plugins registered. An event that cannot be
// received, because its resource is not served yet or Berth lacks the permission to watch
// it, degrades the profile but does not fail the build.
func (m *builder) subscribe() {
	if m.informers == nil || m.trial != nil {
		return
	}
	m.invalidEvents = map[fwk.EventResource]error{}
	for resource := range m.pluginsByResource() {
		if err := m.informers.Subscribe(resource); err != nil {
			m.invalidEvents[resource] = err
		}
	}
}

// pluginsByResource returns the plugins that registered events of each resource.
func (m *builder) pluginsByResource() map[fwk.EventResource][]string {
	plugins := map[fwk.EventResource][]string{}
	for _, hint := range m.hints {
		if known := plugins[hint.Event.Resource]; !slices.Contains(known, hint.Plugin) {
			plugins[hint.Event.Resource] = append(known, hint.Plugin)
		}
	}
	return plugins
}

// missedEvents describes the registered events that cannot be received, one sentence for
// each resource.
func (m *builder) missedEvents() []string {
	if m.informers == nil {
		return nil
	}
	missed := m.informers.MissedEvents()
	maps.Copy(missed, m.invalidEvents)
	if len(missed) == 0 {
		return nil
	}
	var sentences []string
	for resource, plugins := range m.pluginsByResource() {
		if err := missed[resource]; err != nil {
			slices.Sort(plugins)
			sentences = append(sentences, fmt.Sprintf("events of %s are not received, so pods that %s rejected may wait longer: %v",
				resource, strings.Join(plugins, " or "), err))
		}
	}
	slices.Sort(sentences)
	return sentences
}

// RequeueEvents returns the events that a plugin registered, as resource/action, sorted. The
// caller must not change the slice.
func (g *Generation) RequeueEvents(plugin string) []string { return g.requeueEvents[plugin] }

// RequeueEvents returns the registered events of each plugin, as resource/action, sorted.
func RequeueEvents(hints []queue.Hint) map[string][]string {
	events := map[string][]string{}
	for _, hint := range hints {
		events[hint.Plugin] = append(events[hint.Plugin], eventNames(hint.Event)...)
	}
	for plugin, names := range events {
		slices.Sort(names)
		events[plugin] = slices.Compact(names)
	}
	return events
}

// eventNames returns the names of the parts of a registered event. The action omits what the
// resource already says: Node/UpdateTaint, not Node/UpdateNodeTaint.
func eventNames(e fwk.ClusterEvent) (names []string) {
	if e.Resource == fwk.WildCard && e.ActionType == fwk.All {
		return []string{"*/*"}
	}
	add := func(action string) {
		for _, kind := range []string{"UpdateNode", "UpdatePod"} {
			if update, ok := strings.CutPrefix(action, kind); ok {
				action = "Update" + update
			}
		}
		names = append(names, fmt.Sprintf("%v/%s", e.Resource, action))
	}
	all := e.ActionType
	if all&fwk.Update == fwk.Update {
		add("Update")
		all &^= fwk.Update
	}
	for bit := fwk.ActionType(1); bit <= all; bit <<= 1 {
		if all&bit != 0 {
			add(bit.String())
		}
	}
	return names
}
