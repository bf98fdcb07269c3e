package volumes

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/berthdev/berth/scheduler/fault"
)

// object is a pointer to a volume or a claim.
type object interface {
	metav1.Object
	comparable
}

// shelf is the objects of one kind: those of an informer, and over some of them
// what they are assumed to be.
type assumeCache[T object] struct {
	resource schema.GroupResource

	mu      sync.RWMutex
	store   toolscache.Indexer // nil: there are none
	assumed map[string]*assumption[T]
}

// assumption is what an object is taken for as long as it has the version that
// the assumption was made from: what the API server says later counts more.
type assumption[T object] struct {
	object T
	owner  *hold
	// written says that the API server took it.
	written bool
}

func keyOf(of metav1.Object) string { return toolscache.MetaObjectToName(of).String() }

func (s *assumeCache[T]) setStore(store toolscache.Indexer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.assumed = store, map[string]*assumption[T]{}
}

// written returns what the informer holds.
func (s *assumeCache[T]) getAPIObject(key string) (T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stored(key)
}

// get returns what is assumed.
func (s *assumeCache[T]) get(key string) (T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored, err := s.stored(key)
	if err != nil {
		return stored, err
	}
	return s.overlay(key, stored), nil
}

// by returns what is assumed of the objects that an index of the informer's
// lists: what is assumed of one moves it nowhere else.
func (s *assumeCache[T]) byIndex(index, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.store == nil {
		return nil, nil
	}
	stored, err := s.store.ByIndex(index, value)
	if err != nil {
		return nil, err
	}
	objects := make([]T, 0, len(stored))
	for _, obj := range stored {
		if typed, ok := obj.(T); ok {
			objects = append(objects, s.overlay(keyOf(typed), typed))
		}
	}
	return objects, nil
}

func (s *assumeCache[T]) stored(key string) (none T, err error) {
	if s.store == nil {
		return none, apierrors.NewNotFound(s.resource, key)
	}
	obj, found, err := s.store.GetByKey(key)
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !found || !ok {
		return none, apierrors.NewNotFound(s.resource, key)
	}
	return typed, nil
}

// over returns what stored is assumed to be.
func (s *assumeCache[T]) overlay(key string, stored T) T {
	if a, ok := s.assumed[key]; ok && a.object.GetResourceVersion() == stored.GetResourceVersion() {
		return a.object
	}
	return stored
}

// assume takes objects for what they will be, all or none.
func (s *assumeCache[T]) assume(owner *hold, objects []T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, now := range objects {
		stored, err := s.stored(keyOf(now))
		if err != nil {
			return err
		}
		if is, made := stored.GetResourceVersion(), now.GetResourceVersion(); is != made {
			return fmt.Errorf("%q is out of sync (stored: %s, assume: %s)", keyOf(now), is, made)
		}
	}
	for _, now := range objects {
		s.assumed[keyOf(now)] = &assumption[T]{object: now, owner: owner}
	}
	return nil
}

// confirm notes that the API server took what owner assumed of an object: it is
// assumed until the informer has heard.
func (s *assumeCache[T]) markWritten(owner *hold, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.assumed[key]; ok && a.owner == owner {
		a.written = true
	}
}

// release takes back what owner assumed of an object and was not written. It
// returns what the object was taken for and what it is, unless nothing changed.
func (s *assumeCache[T]) release(owner *hold, key string) (before, after T, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.assumed[key]
	if !ok || a.owner != owner || a.written || fault.VolumesNotReleased {
		return before, after, false
	}
	delete(s.assumed, key)
	stored, err := s.stored(key)
	if err != nil || stored.GetResourceVersion() != a.object.GetResourceVersion() {
		return before, after, false
	}
	return a.object, stored, true
}

// forget drops what is assumed of an object that has moved on.
func (s *assumeCache[T]) dropStale(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.assumed[key]
	if !ok {
		return
	}
	if stored, err := s.stored(key); err != nil || stored.GetResourceVersion() != a.object.GetResourceVersion() {
		delete(s.assumed, key)
	}
}
