package devices

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// events are delivered in the order in which they were added, one at a time. It is safe
// for concurrent use.
type events struct {
	mu     sync.Mutex
	queued []func()
	// delivering says that a goroutine delivers the events that are queued, and those that
	// are added meanwhile.
	delivering bool
}

// add queues an event. The caller holds the lock of the state that has changed, so that
// the order of events is that of the changes.
func (e *events) add(event func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queued = append(e.queued, event)
}

// deliver delivers all events, unless another goroutine is about to. The caller holds no
// lock. The receiver of an event may make changes, whose events come after it.
func (e *events) deliver() {
	if !e.begin() {
		return
	}
	for event := e.take(); event != nil; event = e.take() {
		event()
	}
}

// begin reports whether the caller is to deliver the events.
func (e *events) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	begins := !e.delivering
	e.delivering = true
	return begins
}

// take returns the next event; nil where none is left, which ends the delivery.
func (e *events) take() func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queued) == 0 {
		e.queued, e.delivering = nil, false
		return nil
	}
	event := e.queued[0]
	e.queued = e.queued[1:]
	return event
}

// addEvent queues the event that an object was added (before is nil), changed, or was
// deleted (after is nil), and calls Changed before it is delivered.
func (d *Devices) addEvent(resource fwk.EventResource, before, after any) {
	happened := fwk.ClusterEvent{Resource: resource, ActionType: fwk.Update}
	switch {
	case before == nil:
		happened.ActionType = fwk.Add
	case after == nil:
		happened.ActionType = fwk.Delete
	}
	d.events.add(func() {
		d.options.Changed()
		d.requeue(happened, before, after, nil)
	})
}

// requeue passes an event to the queue. only is as in EventQueue.
func (d *Devices) requeue(happened fwk.ClusterEvent, before, after any, only func(*v1.Pod) bool) {
	if d.options.Queue != nil {
		d.options.Queue.Event(klog.NewContext(context.Background(), d.options.Log), happened, before, after, only)
	}
}
