package scope

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// fence stands before a handler: once the scope is over nothing passes, and a
// panic ends one call instead of the process.
type fence struct {
	handler cache.ResourceEventHandler
	over    atomic.Bool
	log     logr.Logger
}

// OnAdd hands on an addition.
func (f *fence) OnAdd(obj any, initial bool) {
	f.pass("OnAdd", func() { f.handler.OnAdd(obj, initial) })
}

// OnUpdate hands on an update.
func (f *fence) OnUpdate(before, after any) {
	f.pass("OnUpdate", func() { f.handler.OnUpdate(before, after) })
}

// OnDelete hands on a deletion.
func (f *fence) OnDelete(obj any) {
	f.pass("OnDelete", func() { f.handler.OnDelete(obj) })
}

func (f *fence) pass(method string, call func()) {
	if f.over.Load() {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			f.log.Error(fmt.Errorf("%v", r), "A plugin's informer handler panicked; the event is lost to it",
				"handler", fmt.Sprintf("%T", f.handler), "method", method, "stack", string(debug.Stack()))
		}
	}()
	call()
}
