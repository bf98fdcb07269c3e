package intake

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

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
