package queue

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// The events that the queue itself causes.
var (
	// ForceActivate wakes the pod that it carries, or all pods.
	ForceActivate = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ForceActivate"}
	// gateOpened has the PreEnqueue plugins of the pod that it carries run again, and
	// wakes no other pod.
	gateOpened = fwk.ClusterEvent{Resource: fwk.TargetPod, CustomLabel: "GateOpened"}
	// ProfileSwap is the cause under which pods are requeued when their profile
	// changes.
	ProfileSwap = fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All, CustomLabel: "ProfileSwap"}
)

// Event handles an event of the cluster. It requeues the unschedulable and gated
// pods that the event concerns, as their queueing hints say, before it returns,
// and records the event for the pods in flight. only, unless nil, limits the event
// to the pods for which it returns true; it is called with q.mu held and must read
// nothing but the pod.
func (q *Queue) Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool) {
	e := event{ClusterEvent: happened, oldObj: oldObj, newObj: newObj, only: only}
	var detached []*Entity
	q.mu.Lock()
	for profile, index := range q.unschedulable {
		rules := q.rules[profile]
		registered := rules.registeredPlugins(e)
		for _, d := range index {
			if rules != nil && !e.isWildcard() && !d.blockedByAny(registered) {
				continue
			}
			for p := range q.podsOf(d, rules, e) {
				switch {
				case rules == nil:
					// The pod is about to be held, and there are no hints to evaluate. A
					// profile of the same name that comes later has to evaluate the pod anew.
					p.rules = nil
				case e.concernsAny(p):
					detached = append(detached, p)
				}
			}
		}
	}
	sortByTimestamp(detached)
	for _, p := range detached {
		q.detach(p)
	}
	q.inFlight.record(e)
	q.mu.Unlock()
	q.requeueAll(ctx, happened.Label(), constantStrategy(queueSkip), detached...)
}

// podsOf returns the pods of d that an event may concern. An event that concerns only the
// group of its object is not evaluated for a thousand other groups that wait for pods. The
// caller holds q.mu.
func (q *Queue) podsOf(d *unschedulableGroup, rules *Rules, e event) iter.Seq[*Entity] {
	key, ok := e.objectGroup()
	if !ok || !rules.needsOwnGroup(d.plugins, e) {
		return maps.Keys(d.pods)
	}
	return func(yield func(*Entity) bool) {
		if p := q.podGroups[key]; p != nil && p.group == d {
			yield(p)
		}
	}
}

// GateOpened runs the PreEnqueue plugins of the pod with this UID again: the
// plugin that gates it may let it pass without an event. A pod that passes is
// queued, since the event that it was woken by when the gate was closed does not
// come again.
func (q *Queue) GateOpened(ctx context.Context, uid types.UID) {
	q.mu.Lock()
	p, ok := q.pods[uid]
	if !ok {
		q.mu.Unlock()
		return
	}
	waiting := p.waiting()
	gated := waiting.place == Gated && waiting.isPlaced()
	if gated {
		q.detach(waiting)
	}
	q.inFlight.record(event{ClusterEvent: gateOpened, newObj: p.pod})
	q.mu.Unlock()
	if gated {
		q.requeueAll(ctx, gateOpened.CustomLabel, constantStrategy(queueSkip), waiting)
	}
}

// Activate makes the given pods active without waiting for their backoff, as
// plugins may ask. Pods in flight are activated when they come back; held and
// unknown ones are ignored.
func (q *Queue) Activate(ctx context.Context, pods map[string]*v1.Pod) {
	activated := q.detachToActivate(pods)
	q.requeueAll(ctx, ForceActivate.CustomLabel, constantStrategy(queueImmediately), activated...)
}

// detachToActivate takes the given pods from where they wait, and marks those in flight. A plugin
// may have put nil into the map.
func (q *Queue) detachToActivate(pods map[string]*v1.Pod) []*Entity {
	var activated []*Entity
	q.mu.Lock()
	defer q.mu.Unlock()
	// Removals in another order leave a heap in another order where pods compare as equal.
	for _, key := range slices.Sorted(maps.Keys(pods)) {
		if pods[key] == nil {
			continue
		}
		p, ok := q.pods[pods[key].UID]
		if !ok {
			continue
		}
		p = p.waiting()
		switch {
		case p.place == Active, p.place == Held:
		case p.isPlaced():
			q.detach(p)
			activated = append(activated, p)
		case p.marker != nil && !p.activated:
			// Each pod of a gang that waits at Permit activates all others.
			p.activated = true
			q.inFlight.record(event{ClusterEvent: ForceActivate, newObj: p.pod})
		}
	}
	sortByTimestamp(activated)
	return activated
}

// unschedulableGroup holds the unschedulable or gated pods of one profile that
// are blocked by the same plugins. An event looks at the groups and then only at
// the pods of those that it may wake: ten thousand pods that no node has room for
// cost an event that does not concern them no more than one.
type unschedulableGroup struct {
	// plugins are the plugins that block the pods, sorted. An event can wake the
	// pods only if one of these plugins registered for it.
	plugins []string
	pods    map[*Entity]struct{}
}

// blockedByAny reports whether one of plugins blocks the pods of the group.
func (d *unschedulableGroup) blockedByAny(plugins sets.Set[string]) bool {
	return slices.ContainsFunc(d.plugins, plugins.Has)
}

// unschedulableIndex holds the groups of one profile by the names of their
// plugins, joined with newlines.
type unschedulableIndex map[string]*unschedulableGroup

// add puts p into the group of the plugins that block it.
func (d unschedulableIndex) add(p *Entity) {
	plugins := p.blockingPlugins()
	name := strings.Join(plugins, "\n")
	if d[name] == nil {
		d[name] = &unschedulableGroup{plugins: plugins, pods: map[*Entity]struct{}{}}
	}
	p.group = d[name]
	p.group.pods[p] = struct{}{}
}

// remove takes p out of its group, and drops a group that is empty then.
func (d unschedulableIndex) remove(p *Entity) {
	delete(p.group.pods, p)
	if len(p.group.pods) == 0 {
		delete(d, strings.Join(p.group.plugins, "\n"))
	}
	p.group = nil
}

// blockingPlugins returns the plugins that keep p from being scheduled, sorted.
// A gated pod is blocked by its PreEnqueue plugin alone: what the others would say
// does not matter before that one lets it pass.
func (p *Entity) blockingPlugins() []string {
	if p.place == Gated {
		return []string{p.gate}
	}
	return sets.List(p.rejectors.Union(p.pending))
}
