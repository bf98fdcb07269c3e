package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// hear has the events told that the plugins want to hear of. One that cannot be
// heard, because its resource is not served yet or Berth may not watch it, is an
// ailment of what runs and keeps nothing from running.
func (m *builder) subscribe() {
	if m.scope == nil || m.trial != nil {
		return
	}
	m.scope.OnMissedEventsChange(func() { m.set.notifyDegradationChange(m.blueprint.Name) })
	m.invalidEvents = map[fwk.EventResource]error{}
	for resource := range m.pluginsByResource() {
		if err := m.scope.Subscribe(resource); err != nil {
			m.invalidEvents[resource] = err
		}
	}
}

// listeners are the names of the plugins that want to hear of each resource.
func (m *builder) pluginsByResource() map[fwk.EventResource][]string {
	listeners := map[fwk.EventResource][]string{}
	for _, hint := range m.hints {
		if plugins := listeners[hint.Event.Resource]; !slices.Contains(plugins, hint.Plugin) {
			listeners[hint.Event.Resource] = append(plugins, hint.Plugin)
		}
	}
	return listeners
}

// deaf says, in sentences, what the plugins want to hear of and cannot.
func (m *builder) missedEvents() []string {
	if m.scope == nil {
		return nil
	}
	deaf := m.scope.MissedEvents()
	maps.Copy(deaf, m.invalidEvents)
	if len(deaf) == 0 {
		return nil
	}
	var all []string
	for resource, plugins := range m.pluginsByResource() {
		if why := deaf[resource]; why != nil {
			slices.Sort(plugins)
			all = append(all, fmt.Sprintf("nothing is heard of %s, which may wake pods that %s refused: %v",
				resource, strings.Join(plugins, " or "), why))
		}
	}
	slices.Sort(all)
	return all
}
