// Package plugintest is a fixed cluster for tests of plugins that read more than one node:
// nodes and pods are in a real snapshot, other objects in listers.
package plugintest

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
)

// Cluster is the Handle of the plugins under test. Calling a method that it does not
// implement panics.
type Cluster struct {
	fwk.Handle
	snapshot  *cache.Snapshot
	informers informers.SharedInformerFactory
}

// NewCluster returns a cluster with objects: Nodes, Pods that have a node, Namespaces,
// Services, and the controllers of pods. It panics for other kinds.
func NewCluster(objects ...runtime.Object) *Cluster {
	objectCache := cache.New()
	c := &Cluster{informers: informers.NewSharedInformerFactory(nil, 0)}
	core, apps := c.informers.Core().V1(), c.informers.Apps().V1()
	for _, object := range objects {
		switch o := object.(type) {
		case *v1.Node:
			objectCache.SetNode(o)
		case *v1.Pod:
			objectCache.SetPod(o)
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
			panic(fmt.Sprintf("scene.NewCluster: no informer for a %T", object))
		}
	}
	c.snapshot = objectCache.UpdateSnapshot()
	return c
}

// addToIndexer stores an object as an informer would.
func addToIndexer(informer toolscache.SharedIndexInformer, object any) {
	if err := informer.GetIndexer().Add(object); err != nil {
		panic(err)
	}
}

// SnapshotSharedLister returns the snapshot.
func (c *Cluster) SnapshotSharedLister() fwk.SharedLister { return c.snapshot }

// SharedInformerFactory returns informers that are never started.
func (c *Cluster) SharedInformerFactory() informers.SharedInformerFactory { return c.informers }

// Nodes returns all nodes.
func (c *Cluster) Nodes() []fwk.NodeInfo { return c.snapshot.Nodes() }

// Node returns a node. It panics if there is none of that name.
func (c *Cluster) Node(name string) fwk.NodeInfo {
	node := c.snapshot.Node(name)
	if node == nil {
		panic("scene: no node " + name)
	}
	return node
}

// RunPreFilter runs a plugin's PreFilter, and returns the state for Filter. The test
// fails if the status is not Success.
func (c *Cluster) RunPreFilter(t *testing.T, plugin fwk.PreFilterPlugin, pod *v1.Pod) fwk.CycleState {
	t.Helper()
	state := framework.NewCycleState()
	if _, status := plugin.PreFilter(t.Context(), state, pod, c.Nodes()); !status.IsSuccess() {
		t.Fatalf("PreFilter: %v", status)
	}
	return state
}

// RunFilter runs a plugin's Filter for all nodes. It returns the sorted names of the
// nodes that the plugin accepts and, for the others, the status as "code: message".
func (c *Cluster) RunFilter(t *testing.T, plugin fwk.FilterPlugin, state fwk.CycleState, pod *v1.Pod) (feasible []string, reasons map[string]string) {
	t.Helper()
	reasons = map[string]string{}
	for _, node := range c.Nodes() {
		switch status := plugin.Filter(t.Context(), state, pod, node); {
		case status.IsSuccess():
			feasible = append(feasible, node.Node().Name)
		case status.IsRejected():
			reasons[node.Node().Name] = status.Code().String() + ": " + status.Message()
		default:
			t.Fatalf("Filter of %s: %v", node.Node().Name, status)
		}
	}
	slices.Sort(feasible)
	return feasible, reasons
}
