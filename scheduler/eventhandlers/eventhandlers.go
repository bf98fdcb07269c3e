// Package eventhandlers turns informer events into calls on the cache and the queue:
// what changed in the cluster, and which pending pods may be schedulable by it.
package eventhandlers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/podgroups"
)

// Options are the dependencies of EventHandlers.
type Options struct {
	*PendingPods
	Binding Binding
	// Profiles may be nil.
	Profiles Profiles
	// Explanations is nil where no pod is explained.
	Explanations Explanations
	// Storage are the kinds of storage objects to watch.
	Storage Storage
	// PodGroups are the kinds of PodGroups to watch. Dynamic watches those that are no kind
	// of k8s.io/api; with nil, they are not watched.
	PodGroups PodGroups
	Dynamic   dynamic.Interface
	// GroupChanged is called after a PodGroup was added or changed, or a pod of a group got a node;
	// nil: nothing is.
	GroupChanged func(podgroups.Key)
	// WatchDevices registers the handlers of claims and devices, which pass their events
	// to the queue themselves, and returns what has to be synced; nil for none.
	WatchDevices func(informers.SharedInformerFactory) ([]toolscache.InformerSynced, error)
	// Synced is closed when the objects of the initial lists are handled; nil makes one.
	Synced chan struct{}
	// Wait is how handlers wait for another goroutine; nil means framework.Block.
	Wait framework.WaitFunc
	// Clock measures how long events are handled; nil means the real clock.
	Clock clock.PassiveClock
}

// Binding writes the status of pending pods.
type Binding interface {
	// Observe takes in a new version of a pod without a node.
	Observe(pod *v1.Pod)
	// Forget takes in that a pod was deleted or has a node.
	Forget(uid types.UID)
}

// Explanations are the explanations of pending pods.
type Explanations interface {
	PodBound(namespace, pod string, uid types.UID)
	PodDeleted(namespace, pod string, uid types.UID)
}

// Profiles are the running profiles.
type Profiles interface {
	Names() []string
	// NamespaceChanged takes in that a namespace was added, changed its labels or was
	// deleted; before and after are nil for a namespace that does not exist.
	NamespaceChanged(name string, before, after labels.Set)
}

// EventHandlers handle the events of all objects that the scheduler reads.
type EventHandlers struct {
	options      Options
	initialNodes initialNodes
	synced       atomic.Bool
}

// New returns EventHandlers that are not registered with any informer.
func New(o Options) *EventHandlers {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	if o.Synced == nil {
		o.Synced = make(chan struct{})
	}
	return &EventHandlers{options: o, initialNodes: initialNodes{added: make(chan struct{})}}
}

// +kubebuilder:rbac:groups="",resources=pods;nodes,verbs=list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=list;watch

// Register adds the handlers to the informers of factory. The function that it
// returns waits until the objects of the initial lists are handled; it returns
// false when its context ends first.
func (h *EventHandlers) Register(factory informers.SharedInformerFactory) (func(context.Context) bool, error) {
	pods, podsErr := factory.Core().V1().Pods().Informer().AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.podAdded(obj.(*v1.Pod)) },
		UpdateFunc: func(oldObj, newObj any) { h.podUpdated(oldObj.(*v1.Pod), newObj.(*v1.Pod)) },
		DeleteFunc: func(obj any) { handleDeleted(obj, h.podDeleted) },
	})
	nodes, nodesErr := factory.Core().V1().Nodes().Informer().AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			if node := obj.(*v1.Node); !isInInitialList || !h.initialNodes.collect(node) {
				h.afterInitialNodes(func() { h.nodeAdded(node) })
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			h.afterInitialNodes(func() { h.nodeUpdated(oldObj.(*v1.Node), newObj.(*v1.Node)) })
		},
		DeleteFunc: func(obj any) {
			h.afterInitialNodes(func() { handleDeleted(obj, h.nodeDeleted) })
		},
	})
	synced, othersErr := h.addOtherHandlers(factory)
	storage, storageErr := h.addStorageHandlers(factory)
	groups, groupsErr := h.addPodGroupHandlers(factory)
	var devices []toolscache.InformerSynced
	var devicesErr error
	if h.options.WatchDevices != nil {
		devices, devicesErr = h.options.WatchDevices(factory)
	}
	if err := errors.Join(podsErr, nodesErr, othersErr, storageErr, groupsErr, devicesErr); err != nil {
		return nil, err
	}
	synced = slices.Concat(synced, storage, groups, devices)
	// PodDisruptionBudgets have no handler, since they wake no pod. But preemption
	// must not run before they are known: it would violate them.
	budgets := factory.Policy().V1().PodDisruptionBudgets().Informer()
	synced = append(synced, pods.HasSynced, nodes.HasSynced, budgets.HasSynced)
	return func(ctx context.Context) bool {
		if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
			return false
		}
		h.ensureInitialNodes()
		h.synced.Store(true)
		close(h.options.Synced)
		return true
	}, nil
}

// HasSynced reports whether the objects of the initial lists are handled.
func (h *EventHandlers) HasSynced() bool { return h.synced.Load() }

// WaitForSync waits until the objects of the initial lists are handled; it returns
// false when ctx ends first.
func (h *EventHandlers) WaitForSync(ctx context.Context) bool {
	select {
	case <-h.options.Synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// handleDeleted calls deleted with the object of a delete event. When the watch
// missed the deletion, this is the last version that was seen.
func handleDeleted[T any](obj any, deleted func(T)) {
	if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if known, ok := obj.(T); ok {
		deleted(known)
	}
}

var handlingDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "scheduler_event_handling_duration_seconds",
	Help:    "[ALPHA] Duration in seconds of the handling of a cluster event, requeueing included, by event.",
	Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
}, []string{"event"})

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{handlingDuration} }

// handlingObservers observe the handling of the events of one resource. The label
// values are resolved once.
type handlingObservers struct{ added, updated, deleted prometheus.Observer }

func newHandlingObservers(kind fwk.EventResource) handlingObservers {
	observer := func(action fwk.ActionType) prometheus.Observer {
		return handlingDuration.WithLabelValues(fwk.ClusterEvent{Resource: kind, ActionType: action}.Label())
	}
	return handlingObservers{observer(fwk.Add), observer(fwk.Update), observer(fwk.Delete)}
}

var (
	assignedPodObservers    = newHandlingObservers(fwk.AssignedPod)
	unscheduledPodObservers = newHandlingObservers(fwk.UnscheduledPod)
	nodeObservers           = newHandlingObservers(fwk.Node)
)

// observersFor returns the observers for the events of a pod.
func observersFor(pod *v1.Pod) handlingObservers {
	if assigned(pod) {
		return assignedPodObservers
	}
	return unscheduledPodObservers
}

// now returns the time at which the handling of an event begins.
func (h *EventHandlers) now() time.Time { return h.options.Clock.Now() }

// observeHandling records how long an event was handled that came at begin. It is
// called deferred.
func (h *EventHandlers) observeHandling(begin time.Time, observer prometheus.Observer) {
	observer.Observe(h.options.Clock.Since(begin).Seconds())
}
