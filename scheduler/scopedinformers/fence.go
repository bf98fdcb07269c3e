package scopedinformers

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/cache"
)

// fence stands before a handler: once the scope is over nothing passes, and a
// panic ends one call instead of the process.
type guardedHandler struct {
	handler cache.ResourceEventHandler
	closed  atomic.Bool
	log     logr.Logger
}

// OnAdd hands on an addition.
func (f *guardedHandler) OnAdd(obj any, initial bool) {
	f.invoke("OnAdd", func() { f.handler.OnAdd(obj, initial) })
}

// OnUpdate hands on an update.
func (f *guardedHandler) OnUpdate(before, after any) {
	f.invoke("OnUpdate", func() { f.handler.OnUpdate(before, after) })
}

// OnDelete hands on a deletion.
func (f *guardedHandler) OnDelete(obj any) {
	f.invoke("OnDelete", func() { f.handler.OnDelete(obj) })
}

func (f *guardedHandler) invoke(method string, call func()) {
	if f.closed.Load() {
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
