package simulation

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// informer stands for client-go's: a watch that follows the server's log at
// its own pace, a store that is as far as the watch, and a handler that is
// told later still.
type informer struct {
	toolscache.SharedIndexInformer
	world *world
	name  string
	// sees says whether an object is among those that are watched.
	sees func(object) bool

	handler toolscache.ResourceEventHandler
	from    int // how much of the server's log has been seen
	seen    string
	store   map[string]object
	notices []notice
	// initial is how many notices are left of the first list.
	initial int
	// told are the objects as the handler knows them.
	told map[string]object
}

// notice is one call of the handler: an addition without old, a deletion
// without new.
type notice struct {
	old, new object
	// gap says that a deletion was concluded from a list.
	gap bool
}

func (w *world) newInformer(name string, sees func(object) bool) *informer {
	return &informer{world: w, name: name, sees: sees, store: map[string]object{}, told: map[string]object{}}
}

func isNode(o object) bool {
	_, ok := o.(*v1.Node)
	return ok
}

// isLivePod leaves out pods that have ended, as Berth's field selector does.
func isLivePod(o object) bool {
	pod, ok := o.(*v1.Pod)
	return ok && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

const handlerOf = "handler of "

// AddEventHandler lists what is there and starts telling handler.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	i.list()
	i.initial = len(i.notices)
	i.world.tasks.start(handlerOf+i.name, i.deliver)
	return registration{informer: i}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	*informer
}

// HasSynced waits until the first list was delivered, since nobody would ask
// again in time.
func (r registration) HasSynced() bool {
	r.world.tasks.park(func() bool { return r.initial == 0 })
	return true
}

func (i *informer) HasSynced() bool { return i.initial == 0 }

func (i *informer) behind() bool { return i.from < len(i.world.server.log) }

// follow sees one more write.
func (i *informer) follow() {
	c := i.world.server.log[i.from]
	i.from++
	if c.new != nil {
		i.seen = c.new.GetResourceVersion()
	}
	was := c.old != nil && i.sees(c.old)
	is := c.new != nil && i.sees(c.new)
	switch {
	case is:
		key := keyOf(c.new)
		is := i.world.server.delivered(c.new)
		i.notices = append(i.notices, notice{old: i.store[key], new: is})
		i.store[key] = is
	case was:
		key := keyOf(c.old)
		i.notices = append(i.notices, notice{old: i.store[key]})
		delete(i.store, key)
	}
}

// list replaces the store by what is there now: what happened in between is
// never told.
func (i *informer) list() {
	there := map[string]object{}
	for _, pod := range i.world.server.sortedPods() {
		if i.sees(pod) {
			there[keyOf(pod)] = i.world.server.delivered(pod)
		}
	}
	for _, node := range i.world.server.sortedNodes() {
		if i.sees(node) {
			there[keyOf(node)] = node
		}
	}
	for _, key := range slices.Sorted(maps.Keys(i.store)) {
		if there[key] == nil {
			i.notices = append(i.notices, notice{old: i.store[key], gap: true})
			i.world.count("a deletion seen only as a gap")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		old := i.store[key]
		if old != nil && old.GetUID() != there[key].GetUID() {
			i.world.count("another object under the same name after a gap")
		}
		if old != there[key] {
			i.notices = append(i.notices, notice{old: old, new: there[key]})
		}
	}
	i.store, i.from, i.seen = there, len(i.world.server.log), itoa(i.world.server.version)
}

// deliver tells the handler what there is to tell, one by one.
func (i *informer) deliver() {
	for {
		i.world.tasks.park(func() bool { return len(i.notices) > 0 })
		n := i.notices[0]
		i.notices = i.notices[1:]
		i.tell(n)
		i.initial = max(0, i.initial-1)
	}
}

func (i *informer) tell(n notice) {
	switch {
	case n.new == nil:
		i.world.say("%s handler: deleted %s, gap %v", i.name, describe(n.old), n.gap)
		// Until the handler has dealt with it, room is not known to be free.
		defer delete(i.told, keyOf(n.old))
		if n.gap {
			i.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyOf(n.old), Obj: n.old})
			return
		}
		i.handler.OnDelete(n.old)
	case n.old == nil:
		i.world.say("%s handler: added %s", i.name, describe(n.new))
		i.told[keyOf(n.new)] = n.new
		i.handler.OnAdd(n.new, i.initial > 0)
	default:
		i.world.say("%s handler: updated %s", i.name, describe(n.new))
		i.told[keyOf(n.new)] = n.new
		i.handler.OnUpdate(n.old, n.new)
	}
}

func describe(o object) string {
	text := fmt.Sprintf("%s (UID %s, version %s)", keyOf(o), o.GetUID(), o.GetResourceVersion())
	if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		text += " on " + pod.Spec.NodeName
	}
	return text
}
