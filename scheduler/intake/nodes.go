package intake

import (
	"cmp"
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
type firstNodes struct {
	mu    sync.Mutex
	nodes []*v1.Node
	added bool
}

// keep takes a node. It reports false when the nodes have been added already.
func (f *firstNodes) keep(node *v1.Node) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.added || fault.NodesUnordered {
		return false
	}
	f.nodes = append(f.nodes, node)
	return true
}

// addFirstNodes adds the nodes that were there at the start, by name. Only its
// first call does anything; others wait for its end.
func (in *Intake) addFirstNodes() {
	f := &in.first
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.SortFunc(f.nodes, func(a, b *v1.Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, node := range f.nodes {
		in.nodeAdded(node)
	}
	f.nodes, f.added = nil, true
}

func (in *Intake) nodeAdded(node *v1.Node) {
	defer in.took(in.now(), ofNodes.added)
	in.options.Cache.SetNode(node)
	in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, node, nil)
}

func (in *Intake) nodeUpdated(oldNode, newNode *v1.Node) {
	defer in.took(in.now(), ofNodes.updated)
	in.options.Cache.SetNode(newNode)
	ctx := in.context()
	for _, change := range nodeChanges(oldNode, newNode) {
		in.options.Queue.Event(ctx, change, oldNode, newNode, nil)
	}
}

func (in *Intake) nodeDeleted(node *v1.Node) {
	defer in.took(in.now(), ofNodes.deleted)
	// A pod that is woken must not find the node there still.
	in.options.Cache.NodeDeleted(node)
	in.options.Queue.Event(in.context(), fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete}, node, nil, nil)
}
