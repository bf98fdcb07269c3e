// Package volumes knows which claim holds which volume, including what is only
// assumed, and makes every write to either. It outlives the generations of
// profiles: what was assumed under one is neither lost nor given away again
// under the next.
package volumes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientset "k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are what Volumes are built from.
type Options struct {
	// Client writes.
	Client clientset.Interface
	Clock  clock.WithDelayedExecution
	// Wait is how Await waits; nil means framework.Block.
	Wait framework.WaitFunc
	// Returned is told of a volume or a claim that was assumed to be before and
	// is after again, which no event of the API server says; may be nil. It is
	// called without a lock.
	Released func(before, after metav1.Object)
}

// Volumes are all volumes and claims. They are safe for concurrent use.
type Volumes struct {
	options Options
	volumes assumeCache[*v1.PersistentVolume]
	claims  assumeCache[*v1.PersistentVolumeClaim]

	mu sync.Mutex
	// bells are rung when a claim, or a volume that names it, changes: by the
	// claim's key.
	waiters map[string][]*waiter
}

var _ framework.Volumes = &Volumes{}

// New returns Volumes that know of none until Watch.
func New(o Options) *Volumes {
	if o.Wait == nil {
		o.Wait = framework.Block
	}
	v := &Volumes{options: o, waiters: map[string][]*waiter{}}
	v.volumes.resource = schema.GroupResource{Resource: "persistentvolumes"}
	v.claims.resource = schema.GroupResource{Resource: "persistentvolumeclaims"}
	return v
}

// byClass is an index of volumes.
const storageClassIndex = "berth.dev/storage-class"

// Watch has v look into these informers from now on. Their stores are read, and
// not copied: who was woken by an event finds what it was about.
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

// indexByClass has an informer of volumes list them by class, once.
func addStorageClassIndex(volumes toolscache.SharedIndexInformer) error {
	// Only reads by name take the store's lock; GetIndexers does not.
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

// changes hears of the keys of what changed.
func keyHandler(changed func(key string)) toolscache.ResourceEventHandlerFuncs {
	tell := func(obj any) {
		if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
			changed(key)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: tell, UpdateFunc: func(_, obj any) { tell(obj) }, DeleteFunc: tell}
}

// Volume returns a volume as it is assumed to be.
func (v *Volumes) Volume(name string) (*v1.PersistentVolume, error) { return v.volumes.get(name) }

// Claim returns a claim as it is assumed to be.
func (v *Volumes) Claim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return v.claims.get(namespace + "/" + name)
}

// OfClass returns the volumes of a storage class as they are assumed to be.
// Upstream takes them as a map has them; here equal ones go by name, always.
func (v *Volumes) VolumesOfClass(class string) ([]*v1.PersistentVolume, error) {
	volumes, err := v.volumes.byIndex(storageClassIndex, class)
	slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return volumes, err
}

// WrittenVolume returns what the API server said last.
func (v *Volumes) APIVolume(name string) (*v1.PersistentVolume, error) {
	return v.volumes.getAPIObject(name)
}

// WrittenClaim returns what the API server said last.
func (v *Volumes) APIClaim(namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return v.claims.getAPIObject(namespace + "/" + name)
}

// Failed counts an error at a stage.
func (v *Volumes) CountFailure(stage string) { stageErrors.WithLabelValues(stage).Inc() }

// Await calls done until it says true or fails.
func (v *Volumes) Await(ctx context.Context, limit time.Duration, claims []*v1.PersistentVolumeClaim, done func() (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := v.options.Clock.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	b := &waiter{signal: make(chan struct{}, 1)}
	defer v.addWaiter(b, claims)()
	for ctx.Err() == nil {
		if ok, err := done(); err != nil || ok {
			return err
		}
		again := v.options.Clock.AfterFunc(pollInterval, b.wake)
		err := v.options.Wait(ctx, b.signal)
		again.Stop()
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// poll is how often a condition is looked at that no claim's change announces:
// the pod may be gone, or the node. It is upstream's, for everything.
const pollInterval = time.Second

// bell wakes one who waits.
type waiter struct{ signal chan struct{} }

func (b *waiter) wake() {
	select {
	case b.signal <- struct{}{}:
	default: // it rings already
	}
}

// listen has b rung when one of claims changes, until stop is called.
func (v *Volumes) addWaiter(b *waiter, claims []*v1.PersistentVolumeClaim) (stop func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, claim := range claims {
		v.waiters[keyOf(claim)] = append(v.waiters[keyOf(claim)], b)
	}
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, claim := range claims {
			key := keyOf(claim)
			v.waiters[key] = slices.DeleteFunc(v.waiters[key], func(other *waiter) bool { return other == b })
			if len(v.waiters[key]) == 0 {
				delete(v.waiters, key)
			}
		}
	}
}

func (v *Volumes) wake(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.waiters[key] {
		b.wake()
	}
}
