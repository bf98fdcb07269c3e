// Package volumes holds all PersistentVolumes and PersistentVolumeClaims, assumed
// bindings included, and makes every write to either. It outlives the Generations of
// profiles: what was assumed under one Generation stays assumed under the next.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are the dependencies of Volumes.
type Options struct {
	// Client writes volumes and claims.
	Client clientset.Interface
	Clock  clock.WithDelayedExecution
	// Wait is how Await waits; nil means framework.Block.
	Wait framework.WaitFunc
	// Queue gets an event when a volume or claim is released that others saw as assumed,
	// which no event of the API server shows. May be nil. No lock is held during the call.
	Queue EventQueue
	Log   logr.Logger
}

// EventQueue requeues the pods that an event concerns.
type EventQueue interface {
	Event(ctx context.Context, happened fwk.ClusterEvent, oldObj, newObj any, only func(*v1.Pod) bool)
}

// Volumes holds all volumes and claims. It is safe for concurrent use.
type Volumes struct {
	options Options
	volumes assumeCache[*v1.PersistentVolume]
	claims  assumeCache[*v1.PersistentVolumeClaim]

	mu sync.Mutex
	// waiters are woken when a claim, or a volume that names it, changes: by the
	// claim's key.
	waiters map[string][]*waiter
}

var _ framework.Volumes = &Volumes{}

// New returns Volumes without objects until UseInformers is called.
func New(o Options) *Volumes {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	v := &Volumes{options: o, waiters: map[string][]*waiter{}}
	v.volumes.resource = schema.GroupResource{Resource: "persistentvolumes"}
	v.claims.resource = schema.GroupResource{Resource: "persistentvolumeclaims"}
	return v
}

// storageClassIndex is the name of the index of volumes by storage class.
const storageClassIndex = "berth.dev/storage-class"

// UseInformers makes v read the stores of these informers. The stores are not copied,
// so that a pod which an event requeues finds the object of the event.
func (v *Volumes) UseInformers(volumes, claims toolscache.SharedIndexInformer) error {
	err := addStorageClassIndex(volumes)
	_, volumesErr := volumes.AddEventHandler(keyHandler(func(key string) {
		v.volumes.dropStale(key)
		if stored, err := v.volumes.getAPIObject(key); err == nil && stored.Spec.ClaimRef != nil {
			v.wake(stored.Spec.ClaimRef.Namespace + "/" + stored.Spec.ClaimRef.Name)
		}
	}))
	_, claimsErr := claims.AddEventHandler(keyHandler(func(key string) {
		v.claims.dropStale(key)
		v.wake(key)
	}))
	v.volumes.setStore(volumes.GetIndexer())
	v.claims.setStore(claims.GetIndexer())
	return errors.Join(err, volumesErr, claimsErr)
}

// addStorageClassIndex adds the index by storage class, unless the informer has it.
func addStorageClassIndex(volumes toolscache.SharedIndexInformer) error {
	// IndexKeys takes the store's lock; GetIndexers does not.
	if _, err := volumes.GetIndexer().IndexKeys(storageClassIndex, ""); err == nil {
		return nil
	}
	return volumes.AddIndexers(toolscache.Indexers{storageClassIndex: func(obj any) ([]string, error) {
		stored, ok := obj.(*v1.PersistentVolume)
		if !ok {
			return nil, fmt.Errorf("is a %T, want a %T", obj, stored)
		}
		return []string{volume.GetPersistentVolumeClass(stored)}, nil
	}})
}

// keyHandler returns event handlers that call changed with the key of each object.
func keyHandler(changed func(key string)) toolscache.ResourceEventHandlerFuncs {
	notify := func(obj any) {
		if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			changed(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify}
}

// Volume returns a volume as it is assumed to be.
func (v *Volumes) Volume(name string) (*v1.PersistentVolume, error) { return v.volumes.get(name) }

// Claim returns a claim as it is assumed to be.
func (v *Volumes) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return v.claims.get(namespace + "/" + name)
}

// VolumesOfClass returns the volumes of a storage class as they are assumed to be, by
// name. kube-scheduler takes equal ones in the order of a map.
func (v *Volumes) VolumesOfClass(class string) ([]*v1.PersistentVolume, error) {
	volumes, err := v.volumes.byIndex(storageClassIndex, class)
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return volumes, err
}

// APIVolume returns a volume as the informer delivered it last.
func (v *Volumes) APIVolume(name string) (*v1.PersistentVolume, error) {
	return v.volumes.getAPIObject(name)
}

// APIClaim returns a claim as the informer delivered it last.
func (v *Volumes) APIClaim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return v.claims.getAPIObject(namespace + "/" + name)
}

// CountFailure counts an error at a stage.
func (v *Volumes) CountFailure(stage string) { stageErrors.WithLabelValues(stage).Inc() }

// Await calls done until it returns true or an error: each second, and when one of
// claims or a volume that names one changes. The error is that of done, the cause of
// ctx, or context.DeadlineExceeded after limit.
func (v *Volumes) Await(ctx context.Context, limit time.Duration, claims []*v1.PersistentVolumeClaim, done func() (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := v.options.Clock.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	w := &waiter{signal: make(chan struct{}, 1)}
	defer v.addWaiter(w, claims)()
	for ctx.Err() == nil {
		if ok, err := done(); err != nil || ok {
			return err
		}
		again := v.options.Clock.AfterFunc(pollInterval, w.wake)
		err := v.options.Wait(ctx, w.signal)
		again.Stop()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// pollInterval is the time between two calls of done without an event: the pod or the
// node may have been deleted. kube-scheduler only polls, with the same interval.
const pollInterval = time.Second

// waiter wakes one Await.
type waiter struct{ signal chan struct{} }

func (w *waiter) wake() {
	framework.Notify(w.signal)
}

// addWaiter wakes w when one of claims changes, until stop is called.
func (v *Volumes) addWaiter(w *waiter, claims []*v1.PersistentVolumeClaim) (stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, claim := range claims {
		v.waiters[keyOf(claim)] = append(v.waiters[keyOf(claim)], w)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, claim := range claims {
			key := keyOf(claim)
			v.waiters[key] = slices.DeleteFunc(v.waiters[key], func(other *waiter) bool { return other == w })
			if len(v.waiters[key]) == 0 {
				delete(v.waiters, key)
			}
		}
	}
}

func (v *Volumes) wake(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.waiters[key] {
		w.wake()
	}
}

var (
	// cacheRequests is registered and never counted, as in kube-scheduler, which has
	// no such cache any more.
	cacheRequests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_binder_cache_requests_total",
		Help: "[ALPHA] Always 0: kube-scheduler registers the metric and does not count it any more.",
	}, []string{"operation"})
	stageErrors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "scheduler_volume_scheduling_stage_error_total",
		Help: "[ALPHA] Errors of volume binding, by stage: predicate, assume, bind.",
	}, []string{"operation"})
)

// Metrics returns the collectors of this package.
func Metrics() []prometheus.Collector { return []prometheus.Collector{cacheRequests, stageErrors} }
