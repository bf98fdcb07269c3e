package eventhandlers

import (
	"cmp"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// firstNodes holds the nodes that were there at the start until all of them have
// come. client-go hands them over in the order of a map, and the order in which
// nodes come is that in which they are tried: by name, it is the same in every
// process, and kubectl berth record can know it.
type initialNodes struct {
	mu    sync.Mutex
	nodes []*v1.Node
	// begun says that they are being added, and done that they are; added is closed then.
	adding, done bool
	added        chan struct{}
	// later is what came while they were being added, in its order.
	deferred []func()
}

// keep takes a node. It reports false when the nodes are being added already.
func (f *initialNodes) collect(node *v1.Node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adding || fault.NodesUnordered {
		return false
	}
	f.nodes = append(f.nodes, node)
	return true
}

// begin returns true to its first caller alone, who adds the nodes.
func (f *initialNodes) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	first := !f.adding
	f.adding = true
	return first
}

// putOff has work done by whoever adds the nodes, when they are added. It reports false
// where nobody does.
func (f *initialNodes) deferWork(work func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adding && !f.done {
		f.deferred = append(f.deferred, work)
		return true
	}
	return false
}

// rest returns what was put off; nothing when all is done.
func (f *initialNodes) takeDeferred() []func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	later := f.deferred
	f.deferred = nil
	if f.done = len(later) == 0; f.done {
		close(f.added)
	}
	return later
}

// afterFirstNodes does what is to be done about a node, after those that were there at
// the start are added. The informer calls it, in one goroutine.
func (in *EventHandlers) afterInitialNodes(work func()) {
	if in.initialNodes.deferWork(work) {
		return
	}
	if in.initialNodes.begin() {
		in.addInitialNodes()
	} else if in.initialNodes.deferWork(work) { // somebody began in between
		return
	}
	work()
}

// addFirstNodes returns when the nodes that were there at the start are added.
func (in *EventHandlers) ensureInitialNodes() {
	if in.initialNodes.begin() {
		in.addInitialNodes()
		return
	}
	_ = in.options.Wait(context.Background(), in.initialNodes.added) // which has no other end
}

// addFirst adds the nodes that were there at the start, by name, and then what came
// meanwhile. No lock is held: what a node wakes may wait for others.
func (in *EventHandlers) addInitialNodes() {
	slices.SortFunc(in.initialNodes.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range in.initialNodes.nodes {
		in.nodeAdded(node)
	}
	in.initialNodes.nodes = nil
	for later := in.initialNodes.takeDeferred(); len(later) > 0; later = in.initialNodes.takeDeferred() {
		for _, work := range later {
			work()
		}
	}
}

func (in *EventHandlers) nodeAdded(node *v1.Node) {
	defer in.observeHandling(in.now(), nodeObservers.added)
	in.options.Cache.SetNode(node)
	in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node, nil)
}

func (in *EventHandlers) nodeUpdated(oldNode, newNode *v1.Node) {
	defer in.observeHandling(in.now(), nodeObservers.updated)
	in.options.Cache.SetNode(newNode)
	ctx := in.context()
	for _, change := range nodeEvents(oldNode, newNode) {
		in.options.Queue.Event(ctx, change, oldNode, newNode, nil)
	}
}

func (in *EventHandlers) nodeDeleted(node *v1.Node) {
	defer in.observeHandling(in.now(), nodeObservers.deleted)
	// A pod that is woken must not find the node there still.
	in.options.Cache.RemoveNode(node)
	in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, node, nil, nil)
}
