// Package scene is a cluster that stands still, for tests of plugins that look
// beyond one node: nodes and pods are in a real snapshot, everything else in
// listers.
package scene

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
)

// Scene is the Handle of the plugins that play in it. What it does not have is
// not there: a plugin that asks for more panics, and its test says so.
type Cluster struct {
	fwk.Handle
	snapshot  *cache.Snapshot
	informers informers.SharedInformerFactory
}

// New returns a scene of objects: Nodes, Pods that have a node, Namespaces,
// Services, and the controllers of pods. It panics about any other kind.
func NewCluster(objects ...runtime.Object) *Cluster {
	what := cache.New()
	s := &Cluster{informers: informers.NewSharedInformerFactory(nil, 0)}
	core, apps := s.informers.Core().V1(), s.informers.Apps().V1()
	for _, object := range objects {
		switch o := object.(type) {
		case *v1.Node:
			what.SetNode(o)
		case *v1.Pod:
			what.SetPod(o)
		case *v1.Namespace:
			addToIndexer(core.Namespaces().Informer(), o)
		case *v1.Service:
			addToIndexer(core.Services().Informer(), o)
		case *v1.ReplicationController:
			addToIndexer(core.ReplicationControllers().Informer(), o)
		case *appsv1.ReplicaSet:
			addToIndexer(apps.ReplicaSets().Informer(), o)
		case *appsv1.StatefulSet:
			addToIndexer(apps.StatefulSets().Informer(), o)
		default:
			panic(fmt.Sprintf("scene.New: no place for a %T", object))
		}
	}
	s.snapshot = what.UpdateSnapshot()
	return s
}

// put stores an object as an informer would; it fails for none with a name.
func addToIndexer(informer toolscache.SharedIndexInformer, object any) {
	if err := informer.GetIndexer().Add(object); err != nil {
		panic(err)
	}
}

// SnapshotSharedLister returns the snapshot.
func (s *Cluster) SnapshotSharedLister() fwk.SharedLister { return s.snapshot }

// SharedInformerFactory returns the listers; nothing runs behind them.
func (s *Cluster) SharedInformerFactory() informers.SharedInformerFactory { return s.informers }

// Nodes returns all nodes.
func (s *Cluster) Nodes() []fwk.NodeInfo { return s.snapshot.Nodes() }

// Node returns one node; it panics when there is none of that name.
func (s *Cluster) Node(name string) fwk.NodeInfo {
	node := s.snapshot.Node(name)
	if node == nil {
		panic("scene: no node " + name)
	}
	return node
}
