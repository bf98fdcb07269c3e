// Package intake turns informer events into calls on cache and queue: what
// changed in the cluster, and which waiting pods may care.
package eventhandlers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cache"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Options are what an Intake is built from.
type Options struct {
	Cache       *cache.Cache
	Queue       *queue.Queue
	WaitingPods *framework.WaitingPods
	// Observe gets each new version of a pod that still has no node.
	OnUnscheduledPodUpdate func(pod *v1.Pod)
	// Forget is told of pods that are gone, or assigned: those have a node.
	OnPodGone func(pod *v1.Pod)
	// Namespace is told the labels of a namespace before and after a change,
	// nil where there was or is none; may be nil.
	OnNamespaceLabels func(name string, before, after labels.Set)
	// Storage is which kinds of storage objects there are to listen to.
	Storage Storage
	// DeviceClasses counts the DeviceClasses; nil: none are watched.
	DeviceClasses *DeviceClasses
	// Backing is called when a DeviceClass begins or ceases to back an extended
	// resource; concerned says of a pod whether it requests that resource. It may be nil.
	OnDeviceClassChange func(ctx context.Context, concerned func(pod *v1.Pod) bool)
	// Wait waits for work of another goroutine; nil means framework.Block.
	Wait framework.WaitFunc
	// Clock times what is taken in; nil means the machine's.
	Clock clock.PassiveClock
	Log   logr.Logger
}

// Intake hears of every change to what is scheduled.
type EventHandlers struct {
	options      Options
	initialNodes initialNodes
	synced       atomic.Bool
	syncDone     chan struct{}
}

// New returns an Intake that listens to nothing yet.
func New(o Options) *EventHandlers {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	return &EventHandlers{options: o, syncDone: make(chan struct{}), initialNodes: initialNodes{added: make(chan struct{})}}
}

// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch

// Register listens to the informers that factory holds. The function it
// returns waits until everything that was there has been heard of; it reports
// false when its context ends first.
func (in *EventHandlers) Register(factory informers.SharedInformerFactory) (func(context.Context) bool, error) {
	pods, podsErr := factory.Core().V1().Pods().Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { in.podAdded(obj.(*v1.Pod)) },
		UpdateFunc: func(oldObj, newObj any) { in.podUpdated(oldObj.(*v1.Pod), newObj.(*v1.Pod)) },
		DeleteFunc: func(obj any) { handleDeleted(obj, in.podDeleted) },
	})
	nodes, nodesErr := factory.Core().V1().Nodes().Informer().AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, first bool) {
			if node := obj.(*v1.Node); !first || !in.initialNodes.collect(node) {
				in.afterInitialNodes(func() { in.nodeAdded(node) })
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			in.afterInitialNodes(func() { in.nodeUpdated(oldObj.(*v1.Node), newObj.(*v1.Node)) })
		},
		DeleteFunc: func(obj any) {
			in.afterInitialNodes(func() { handleDeleted(obj, in.nodeDeleted) })
		},
	})
	synced, othersErr := in.addOtherHandlers(factory)
	storage, storageErr := in.addStorageHandlers(factory)
	classes, classesErr := in.addDeviceClassHandler(factory)
	if err := errors.Join(podsErr, nodesErr, othersErr, storageErr, classesErr); err != nil {
		return nil, err
	}
	synced = slices.Concat(synced, storage, classes)
	// Nobody is woken by a budget; but evicting before they are known would
	// disregard them.
	budgets := factory.Policy().V1().PodDisruptionBudgets().Informer()
	synced = append(synced, pods.HasSynced, nodes.HasSynced, budgets.HasSynced)
	return func(ctx context.Context) bool {
		if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
			return false
		}
		in.ensureInitialNodes()
		in.synced.Store(true)
		close(in.syncDone)
		return true
	}, nil
}

// Synced says whether everything that was there at the start has been heard of.
func (in *EventHandlers) HasSynced() bool { return in.synced.Load() }

// Listed is closed once everything that was there at the start has been heard of.
func (in *EventHandlers) SyncDone() <-chan struct{} { return in.syncDone }

// WaitForSync waits for Synced; it reports false when ctx ends first.
func (in *EventHandlers) WaitForSync(ctx context.Context) bool {
	select {
	case <-in.syncDone:
		return true
	case <-ctx.Done():
		return false
	}
}

func (in *EventHandlers) context() context.Context {
	return klog.NewContext(context.Background(), in.options.Log)
}

// ifKnown hands on what was deleted. After a watch broke off, all that is
// known is the last version that was seen.
func handleDeleted[T any](obj any, deleted func(T)) {
	if tomb, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tomb.Obj
	}
	if known, ok := obj.(T); ok {
		deleted(known)
	}
}
