package profile

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/extender"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// rejectingPoints are the extension points at which a plugin can reject a pod.
var rejectingPoints = []framework.Point{
	framework.PreEnqueue, framework.PreFilter, framework.Filter, framework.Reserve, framework.Permit, framework.PreBind,
	framework.PlacementFeasible,
}

// selectingPoints are the extension points that influence which node is selected.
var selectingPoints = []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score}

// profileKeyOf returns the key by which the queue compares a profile before and after a
// swap, to find the pods that the change concerns. It covers what decides about pods, and
// what is recorded of pending pods, because only another attempt can add or remove that. It
// does not cover order, backoff and other records, which change no verdict.
func profileKeyOf(b *compile.Blueprint, paused bool) queue.ProfileKey {
	m := queue.ProfileKey{
		Plugins:       map[string]string{},
		PreEnqueue:    sets.New[string](),
		PostFilter:    chainText(b, framework.PostFilter) + chainText(b, framework.PodGroupPostFilter),
		NodeSelection: fmt.Sprint(b.PercentageOfNodesToScore),
		Holds:         fmt.Sprintf("paused %t", paused),
		Explanations:  explanationDetail(b),
	}
	for _, point := range rejectingPoints {
		for _, entry := range b.Chains[point] {
			if _, known := m.Plugins[entry.Name]; !known {
				m.Plugins[entry.Name] = argumentsText(b, entry.Name)
			}
			m.Plugins[entry.Name] += " " + string(point)
		}
	}
	for _, entry := range b.Chains[framework.PreEnqueue] {
		m.PreEnqueue.Insert(entry.Name)
	}
	for _, point := range selectingPoints {
		m.NodeSelection += "; " + chainText(b, point)
	}
	for _, e := range b.Extenders {
		m.Plugins[framework.ExtenderPluginName(e.Name)] = extenderText(e)
		if e.Filter != "" || e.Prioritize != "" {
			m.NodeSelection += "; " + extenderText(e)
		}
		if e.Preempt != "" {
			m.PostFilter += "; " + extenderText(e)
		}
	}
	if b.Namespaces != nil {
		m.Holds += ", namespaces " + b.Namespaces.String()
	}
	return m
}

// explanationDetail says what the SchedulingDecisions of pending pods hold.
func explanationDetail(b *compile.Blueprint) string {
	switch {
	case !b.Decisions.Explains():
		return "nothing"
	case b.Decisions.Nodes:
		return "reasons and nodes"
	}
	return "reasons"
}

// chainText returns the plugins of a point in order, with weights and arguments; "" if there
// are none.
func chainText(b *compile.Blueprint, point framework.Point) string {
	var text []string
	for _, entry := range b.Chains[point] {
		text = append(text, fmt.Sprintf("%s %d %s", entry.Name, entry.Weight, argumentsText(b, entry.Name)))
	}
	return strings.Join(text, ", ")
}

// argumentsText returns a plugin's arguments as JSON; "" if it has none. Arguments that
// cannot be encoded get a text that differs for each Blueprint.
func argumentsText(b *compile.Blueprint, name string) string {
	args := b.Args[name]
	if args == nil {
		return ""
	}
	text, err := json.Marshal(args)
	if err != nil {
		return fmt.Sprintf("%p", b)
	}
	return string(text)
}

// fingerprints returns for each plugin of a Blueprint a text of its extension points, weights
// and arguments. Plugins of one name with equal fingerprints behave alike.
func fingerprints(b *compile.Blueprint) map[string]string {
	all := map[string]string{}
	for point, entry := range b.Chains.All() {
		if _, known := all[entry.Name]; !known {
			all[entry.Name] = argumentsText(b, entry.Name)
		}
		all[entry.Name] += fmt.Sprintf(" %s:%d", point, entry.Weight)
	}
	for _, e := range b.Extenders {
		all[framework.ExtenderPluginName(e.Name)] = extenderText(e)
	}
	return all
}

// extenderText returns all fields of an extender as text.
func extenderText(e extender.Config) string { return fmt.Sprintf("%+v", e) }
