package queue

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// unschedulableGroup holds the unschedulable or gated pods of one profile that
// are blocked by the same plugins. An event looks at the groups and then only at
// the pods of those that it may wake: ten thousand pods that no node has room for
// cost an event that does not concern them no more than one.
type unschedulableGroup struct {
	// plugins are the plugins that block the pods, sorted. An event can wake the
	// pods only if one of these plugins registered for it.
	plugins []string
	pods    map[*Pod]struct{}
}

// blockedByAny reports whether one of plugins blocks the pods of the group.
func (d *unschedulableGroup) blockedByAny(plugins sets.Set[string]) bool {
	return slices.ContainsFunc(d.plugins, plugins.Has)
}

// unschedulableIndex holds the groups of one profile by the names of their
// plugins, joined with newlines.
type unschedulableIndex map[string]*unschedulableGroup

// add puts p into the group of the plugins that block it.
func (d unschedulableIndex) add(p *Pod) {
	plugins := p.blockingPlugins()
	name := strings.Join(plugins, "\n")
	if d[name] == nil {
		d[name] = &unschedulableGroup{plugins: plugins, pods: map[*Pod]struct{}{}}
	}
	p.group = d[name]
	p.group.pods[p] = struct{}{}
}

// remove takes p out of its group, and drops a group that is empty then.
func (d unschedulableIndex) remove(p *Pod) {
	delete(p.group.pods, p)
	if len(p.group.pods) == 0 {
		delete(d, strings.Join(p.group.plugins, "\n"))
	}
	p.group = nil
}

// blockingPlugins returns the plugins that keep p from being scheduled, sorted.
// A gated pod is blocked by its PreEnqueue plugin alone: what the others would say
// does not matter before that one lets it pass.
func (p *Pod) blockingPlugins() []string {
	if p.place == Gated {
		return []string{p.gate}
	}
	return sets.List(p.rejectors.Union(p.pending))
}
