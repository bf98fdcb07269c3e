package profile

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"
)

// allows says whether pods of a namespace are taken. Until Berth knows which
// namespaces there are nobody is turned away, nor is anybody tried.
func (s *Set) namespaceAllowed(allowed labels.Selector, namespace string) bool {
	if allowed == nil || s.options.Namespace == nil || !s.cachesSynced() {
		return true
	}
	has, known := s.options.Namespace(namespace)
	return known && allowed.Matches(has)
}

func (s *Set) cachesSynced() bool {
	if s.options.CachesSynced == nil {
		return true
	}
	select {
	case <-s.options.CachesSynced:
		return true
	default:
		return false
	}
}

// NamespaceChanged lets profiles think again that took pods of a namespace and
// do not any more, or the other way round. before and after are its labels; nil
// where there is none.
func (s *Set) NamespaceChanged(name string, before, after labels.Set) {
	if !s.cachesSynced() {
		return // see NamespacesListed
	}
	s.recheckHolds(name, func(allowed labels.Selector) bool {
		return (before != nil && allowed.Matches(before)) != (after != nil && allowed.Matches(after))
	})
}

// NamespacesListed lets profiles think that could not know before which
// namespaces there are.
func (s *Set) NamespacesSynced() {
	s.recheckHolds("", func(labels.Selector) bool { return true })
}

// reconsider asks again, beside the caller, about the pods of a namespace, or
// of all, that wait for profiles which do not take every namespace.
func (s *Set) recheckHolds(namespace string, concerned func(labels.Selector) bool) {
	for _, name := range s.Names() {
		running, ok := s.Running(name)
		if ok && running.Blueprint.Namespaces != nil && concerned(running.Blueprint.Namespaces) {
			s.options.Go(func() { s.options.Queue.RecheckHolds(context.Background(), name, namespace) })
		}
	}
}
