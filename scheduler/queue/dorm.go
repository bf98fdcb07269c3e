package queue

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// dorm is where the pods of a profile sleep that wait for the same plugins. An
// event looks at dorms, and only at the pods of those that it may wake: ten
// thousand pods for which nodes are too small cost it no more than one.
type unschedulableGroup struct {
	// plugins are those of which one must hear of an event that wakes the pods.
	plugins []string
	pods    map[*Pod]struct{}
}

// hears says whether one of plugins may wake the pods.
func (d *unschedulableGroup) blockedByAny(plugins sets.Set[string]) bool {
	return slices.ContainsFunc(d.plugins, plugins.Has)
}

// dorms are the dorms of one profile, by the plugins' names.
type unschedulableIndex map[string]*unschedulableGroup

// add lays p down.
func (d unschedulableIndex) add(p *Pod) {
	plugins := p.blockingPlugins()
	name := strings.Join(plugins, "\n")
	if d[name] == nil {
		d[name] = &unschedulableGroup{plugins: plugins, pods: map[*Pod]struct{}{}}
	}
	p.group = d[name]
	p.group.pods[p] = struct{}{}
}

// drop takes up p, which sleeps in one of them.
func (d unschedulableIndex) remove(p *Pod) {
	delete(p.group.pods, p)
	if len(p.group.pods) == 0 {
		delete(d, strings.Join(p.group.plugins, "\n"))
	}
	p.group = nil
}

// awaited are the plugins that hold p back, sorted. A gated pod waits for its
// gate alone: what the others think of it does not matter before.
func (p *Pod) blockingPlugins() []string {
	if p.place == Gated {
		return []string{p.gate}
	}
	return sets.List(p.rejectors.Union(p.pending))
}
