package eventhandlers

import (
	"cmp"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// initialNodes collects the nodes of the initial list until it is complete, so that
// they are added to the cache by name. client-go delivers them in the order of a map,
// and the order in which nodes are added is the order in which they are filtered: by
// name it is the same in every process, and kubectl berth record can reproduce it.
type initialNodes struct {
	mu    sync.Mutex
	nodes []*v1.Node
	// adding says that the nodes are being added, done that they are; added is closed
	// then.
	adding, done bool
	added        chan struct{}
	// deferred are the events that came while the nodes were being added, in order.
	deferred []func()
}

// collect stores a node of the initial list. It returns false when the nodes are
// being added already, or were.
func (i *initialNodes) collect(node *v1.Node) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.adding {
		return false
	}
	i.nodes = append(i.nodes, node)
	return true
}

// begin returns true to its first caller alone, which has to add the nodes.
func (i *initialNodes) begin() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := !i.adding
	i.adding = true
	return first
}

// deferWork has the goroutine that adds the nodes call work afterwards. It returns
// false when no goroutine is adding nodes.
func (i *initialNodes) deferWork(work func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.adding && !i.done {
		i.deferred = append(i.deferred, work)
		return true
	}
	return false
}

// takeDeferred returns the deferred events. Where there are none, it marks the
// initial nodes as added.
func (i *initialNodes) takeDeferred() []func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	deferred := i.deferred
	i.deferred = nil
	if i.done = len(deferred) == 0; i.done {
		close(i.added)
	}
	return deferred
}

// afterInitialNodes calls work after the nodes of the initial list were added. The
// informer calls it in one goroutine.
func (h *EventHandlers) afterInitialNodes(work func()) {
	if h.initialNodes.deferWork(work) {
		return
	}
	if h.initialNodes.begin() {
		h.addInitialNodes()
	} else if h.initialNodes.deferWork(work) { // another goroutine began meanwhile
		return
	}
	work()
}

// ensureInitialNodes returns when the nodes of the initial list are added.
func (h *EventHandlers) ensureInitialNodes() {
	if h.initialNodes.begin() {
		h.addInitialNodes()
		return
	}
	_ = h.options.Wait(context.Background(), h.initialNodes.added) // never fails without a deadline
}

// addInitialNodes adds the nodes of the initial list by name, and then calls the
// deferred events. It holds no lock, since requeueing may wait for other goroutines.
func (h *EventHandlers) addInitialNodes() {
	slices.SortFunc(h.initialNodes.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range h.initialNodes.nodes {
		h.nodeAdded(node)
	}
	h.initialNodes.nodes = nil
	for deferred := h.initialNodes.takeDeferred(); len(deferred) > 0; deferred = h.initialNodes.takeDeferred() {
		for _, work := range deferred {
			work()
		}
	}
}

func (h *EventHandlers) nodeAdded(node *v1.Node) {
	defer h.observeHandling(h.now(), nodeObservers.added)
	h.options.Cache.SetNode(node)
	h.options.Queue.Event(h.options.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node, nil)
}

func (h *EventHandlers) nodeUpdated(oldNode, newNode *v1.Node) {
	defer h.observeHandling(h.now(), nodeObservers.updated)
	h.options.Cache.SetNode(newNode)
	ctx := h.options.context()
	for _, change := range nodeEvents(oldNode, newNode) {
		h.options.Queue.Event(ctx, change, oldNode, newNode, nil)
	}
}

func (h *EventHandlers) nodeDeleted(node *v1.Node) {
	defer h.observeHandling(h.now(), nodeObservers.deleted)
	// A pod that the event wakes must not be tried on the deleted node.
	h.options.Cache.RemoveNode(node)
	h.options.Queue.Event(h.options.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, node, nil, nil)
}
