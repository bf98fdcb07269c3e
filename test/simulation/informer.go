package simulation

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

// informer replaces client-go's: its watch reads the server's log and updates the store, and
// its handler is called later still.
type informer struct {
	toolscache.SharedIndexInformer
	sim  *simulation
	name string
	// selects says whether the informer watches an object.
	selects func(object) bool
	watchConnection

	handler         toolscache.ResourceEventHandler
	logIndex        int // how much of the server's log has been read
	resourceVersion string
	store           map[string]object
	notifications   []notification
	// initialLeft is how many notifications of the first list are left.
	initialLeft int
	// handled are the objects that the handler has received.
	handled map[string]object

	// indexer is the store as client-go's listers read it, nil for none; listed is closed after
	// the first list. passesOver says that the watch has nothing but its kind. See kinds.go.
	indexer    toolscache.Indexer
	listed     chan struct{}
	passesOver bool
	listeners  []*listener
}

// notification is one call of the handler: an addition without old, a deletion without new.
type notification struct {
	old, new object
	// unknownState says that a list showed the deletion.
	unknownState bool
}

func (sim *simulation) newInformer(name string, selects func(object) bool) *informer {
	return &informer{
		sim: sim, name: name, selects: selects, store: map[string]object{}, handled: map[string]object{},
		watchConnection: watchConnection{replica: sim.replica, api: sim.api},
	}
}

func isNode(o object) bool {
	_, ok := o.(*v1.Node)
	return ok
}

// isLivePod is false for pods that have ended, as Berth's field selector is.
func isLivePod(o object) bool {
	pod, ok := o.(*v1.Pod)
	return ok && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

const handlerTaskPrefix = "handler of "

// AddEventHandler lists the objects and starts the task that calls the handler.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.handler != nil {
		return i.addListener(handler), nil
	}
	i.handler = handler
	i.listAgain()
	i.initialLeft = len(i.notifications)
	i.sim.tasks.start(handlerTaskPrefix+i.name, i.deliver)
	return registration{informer: i}, nil
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	*informer
}

// HasSynced waits until the first list was delivered, since its caller would poll by real
// time.
func (r registration) HasSynced() bool {
	r.sim.tasks.yield(func() bool { return r.initialLeft == 0 })
	return true
}

// isListed says whether the first list was delivered.
func (i *informer) isListed() bool { return i.handler != nil && i.initialLeft == 0 }

func (i *informer) HasSynced() bool { return i.initialLeft == 0 }

// hasUnread says whether the server has writes that the watch has not read, or the watch is
// interrupted.
func (i *informer) hasUnread() bool {
	if i.api != nil {
		return i.handler != nil && !i.replica.dead && (!i.connected || i.unreadBefore(len(i.sim.server.log)))
	}
	i.passOver()
	return i.logIndex < len(i.sim.server.log)
}

// readNext reads one more write of the log.
func (i *informer) readNext() {
	if i.api != nil && !i.connected {
		i.reconnect()
		return
	}
	c := i.sim.server.log[i.logIndex]
	i.logIndex++
	was := c.old != nil && i.selects(c.old)
	is := c.new != nil && i.selects(c.new)
	switch {
	case i.api != nil && (was || is):
		i.syncedTo(c.version)
	case i.api == nil && c.new != nil:
		i.resourceVersion = c.new.GetResourceVersion()
	case i.api == nil:
		i.resourceVersion = itoa(c.version)
	}
	switch {
	case is:
		key := keyOf(c.new)
		is := i.sim.server.delivered(c.new)
		i.notify(notification{old: i.store[key], new: is})
		i.keep(key, is)
	case was:
		key := keyOf(c.old)
		i.notify(notification{old: i.store[key]})
		i.keep(key, nil)
	}
}

// list replaces the store by what the server has.
func (i *informer) list() {
	there := map[string]object{}
	for _, pod := range i.sim.server.sortedPods() {
		if i.selects(pod) {
			there[keyOf(pod)] = i.sim.server.delivered(pod)
		}
	}
	for _, node := range i.sim.server.sortedNodes() {
		if i.selects(node) {
			there[keyOf(node)] = node
		}
	}
	for _, group := range i.sim.server.sortedPodGroups() {
		if i.selects(group) {
			there[keyOf(group)] = group
		}
	}
	for _, of := range i.sim.server.further {
		for key, o := range of {
			if i.selects(o) {
				there[key] = o
			}
		}
	}
	i.replace(there)
	i.logIndex, i.resourceVersion = len(i.sim.server.log), itoa(i.sim.server.version)
}

// replace replaces the store by a list. Changes in between are never notified.
func (i *informer) replace(there map[string]object) {
	for _, key := range slices.Sorted(maps.Keys(i.store)) {
		if there[key] == nil {
			i.notify(notification{old: i.store[key], unknownState: true})
			i.sim.count("a deletion found only by a list")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		old := i.store[key]
		if old != nil && old.GetUID() != there[key].GetUID() {
			i.sim.count("a list finds another object under the same name")
		}
		if old != there[key] {
			i.notify(notification{old: old, new: there[key]})
		}
	}
	i.keepAll(there)
}

// deliver calls the handler for each notification.
func (i *informer) deliver() {
	for {
		i.sim.tasks.yield(func() bool { return len(i.notifications) > 0 })
		n := i.notifications[0]
		i.notifications = i.notifications[1:]
		i.callHandler(n)
		i.initialLeft = max(0, i.initialLeft-1)
	}
}

func (i *informer) callHandler(n notification) {
	i.sim.cover.event(i.name, n)
	switch {
	case n.new == nil:
		i.sim.logf("%s handler: deleted %s, found by a list: %v", i.name, describe(n.old), n.unknownState)
		// Until the handler returns, the resources are not known to be free.
		defer i.noteDeleted(n.old)
		if n.unknownState {
			i.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: keyOf(n.old), Obj: n.old})
			return
		}
		i.handler.OnDelete(n.old)
	case n.old == nil:
		i.sim.logf("%s handler: added %s", i.name, describe(n.new))
		i.noteHandled(n.new)
		i.handler.OnAdd(n.new, i.initialLeft > 0)
	default:
		i.sim.logf("%s handler: updated %s", i.name, describe(n.new))
		if pod, is := n.old.(*v1.Pod); is && pod.UID != n.new.GetUID() {
			defer i.sim.noteHandled(pod, true)
		}
		i.noteHandled(n.new)
		i.handler.OnUpdate(n.old, n.new)
	}
}

func (i *informer) noteHandled(o object) {
	if before := i.handled[keyOf(o)]; before != nil {
		i.sim.forgetKnown(before)
	}
	i.handled[keyOf(o)] = o
	i.sim.forgetKnown(o)
	if pod, ok := o.(*v1.Pod); ok {
		i.sim.noteHandled(pod, false)
	}
}

func (i *informer) noteDeleted(o object) {
	delete(i.handled, keyOf(o))
	i.sim.forgetKnown(o)
	if pod, ok := o.(*v1.Pod); ok {
		i.sim.noteHandled(pod, true)
	}
}

func describe(o object) string {
	text := fmt.Sprintf("%s (UID %s, version %s)", keyOf(o), o.GetUID(), o.GetResourceVersion())
	if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		text += " on " + pod.Spec.NodeName
	}
	return text
}
