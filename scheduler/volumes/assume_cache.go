package volumes

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
)

// object is a pointer to a volume or a claim.
type object interface {
	metav1.Object
	comparable
}

// assumeCache holds the objects of one kind: those in the store of an informer, and
// over some of them what they are assumed to be. It is safe for concurrent use.
type assumeCache[T object] struct {
	resource schema.GroupResource

	mu      sync.RWMutex
	store   toolscache.Indexer // nil before UseInformers
	assumed map[string]*assumption[T]
}

// assumption replaces a stored object as long as that has the resource version from
// which the assumption was made. A newer object in the store takes precedence.
type assumption[T object] struct {
	object T
	owner  *hold
	// written says that the API server has stored the assumption.
	written bool
}

func keyOf(of metav1.Object) string { return toolscache.MetaObjectToName(of).String() }

func (s *assumeCache[T]) setStore(store toolscache.Indexer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store, s.assumed = store, map[string]*assumption[T]{}
}

// getAPIObject returns the object in the store of the informer.
func (s *assumeCache[T]) getAPIObject(key string) (T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.stored(key)
}

// get returns an object as it is assumed to be.
func (s *assumeCache[T]) get(key string) (T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	stored, err := s.stored(key)
	if err != nil {
		return stored, err
	}
	return s.overlay(key, stored), nil
}

// byIndex returns the objects that an index of the store lists, as they are assumed to
// be. The index is that of the stored objects.
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

// overlay returns the assumption about stored, or stored itself.
func (s *assumeCache[T]) overlay(key string, stored T) T {
	if a, ok := s.assumed[key]; ok && a.object.GetResourceVersion() == stored.GetResourceVersion() {
		return a.object
	}
	return stored
}

// assume records assumptions about all objects, or none on an error.
func (s *assumeCache[T]) assume(owner *hold, objects []T) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, assumed := range objects {
		stored, err := s.stored(keyOf(assumed))
		if err != nil {
			return err
		}
		if storedVersion, assumedVersion := stored.GetResourceVersion(), assumed.GetResourceVersion(); storedVersion != assumedVersion {
			return fmt.Errorf("%q is out of sync (stored: %s, assume: %s)", keyOf(assumed), storedVersion, assumedVersion)
		}
	}
	for _, assumed := range objects {
		s.assumed[keyOf(assumed)] = &assumption[T]{object: assumed, owner: owner}
	}
	return nil
}

// markWritten records that the API server has stored the assumption of owner about an
// object, which then stays until the informer delivers a newer version.
func (s *assumeCache[T]) markWritten(owner *hold, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a, ok := s.assumed[key]; ok && a.owner == owner {
		a.written = true
	}
}

// release ends the assumption of owner about an object, unless it was written. When
// that changes the object, it returns the assumed and the stored version.
func (s *assumeCache[T]) release(owner *hold, key string) (before, after T, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.assumed[key]
	if !ok || a.owner != owner || a.written {
		return before, after, false
	}
	delete(s.assumed, key)
	stored, err := s.stored(key)
	if err != nil || stored.GetResourceVersion() != a.object.GetResourceVersion() {
		return before, after, false
	}
	return a.object, stored, true
}

// dropStale removes the assumption about an object that has a newer version.
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
