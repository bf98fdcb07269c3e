package framework

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// EventObjects gives a queueing hint the old and the new object of an event as
// what they are; the zero T stands for the one that an addition or a deletion
// lacks. The last known state of an object whose deletion was missed counts as
// the old one. The error says what came instead.
func EventObjects[T any](oldObj, newObj any) (before, after T, err error) {
	if unknown, ok := oldObj.(cache.DeletedFinalStateUnknown); ok {
		oldObj = unknown.Obj
	}
	for _, object := range []struct {
		from any
		to   *T
	}{{oldObj, &before}, {newObj, &after}} {
		if object.from == nil {
			continue
		}
		typed, ok := object.from.(T)
		if !ok {
			return before, after, fmt.Errorf("the event is about a %T, want a %T", object.from, *object.to)
		}
		*object.to = typed
	}
	return before, after, nil
}
