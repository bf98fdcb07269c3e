package profile

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// keeping are the points at which a plugin can keep a pod from its node, or from
// being tried.
var rejectingPoints = []framework.Point{
	framework.PreEnqueue, framework.PreFilter, framework.Filter, framework.Reserve, framework.Permit, framework.PreBind,
}

// choosing are the points that have a say in which of the nodes is taken.
var selectingPoints = []framework.Point{framework.PreFilter, framework.Filter, framework.PreScore, framework.Score}

// makeupOf says what decides about the pods of a profile, as the queue compares
// it at a swap. What decides about the order, about how long is waited and about
// what is written touches nobody's verdict and is not in it, but for what is told
// of pods that wait: only another attempt finds out more, or takes it back.
func profileKeyOf(b *compile.Blueprint, paused bool) queue.ProfileKey {
	m := queue.ProfileKey{
		Plugins:       map[string]string{},
		PreEnqueue:    sets.New[string](),
		PostFilter:    chainText(b, framework.PostFilter),
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

// toldBy says what a blueprint has told of pods that wait.
func explanationDetail(b *compile.Blueprint) string {
	switch {
	case !b.Decisions.Explains():
		return "nothing"
	case b.Decisions.Nodes:
		return "reasons and nodes"
	}
	return "reasons"
}

// chainText names the plugins of a point in order, with weights and arguments;
// "" where there are none.
func chainText(b *compile.Blueprint, point framework.Point) string {
	var text []string
	for _, entry := range b.Chains[point] {
		text = append(text, fmt.Sprintf("%s %d %s", entry.Name, entry.Weight, argumentsText(b, entry.Name)))
	}
	return strings.Join(text, ", ")
}

// argumentsText are a plugin's arguments as text. Those that have none are
// alike; of those that cannot be written down nobody knows.
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
