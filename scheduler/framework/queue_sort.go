package framework

import (
	"context"
	"runtime/debug"

	fwk "k8s.io/kube-scheduler/framework"
)

// QueueSortError says why ByPriority replaces a QueueSort plugin.
type QueueSortError struct {
	// Err is a *PanicError or a *CallTimeoutError.
	Err error
	// Watch is that of the call that timed out; nil after a panic.
	Watch *CallWatch
}

func (e *QueueSortError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *QueueSortError) Unwrap() error { return e.Err }

// QueueSortFaultHandler handles a fault of the QueueSort plugin. QueueSortFailed is called
// once, when ByPriority replaces the plugin. The queue's lock is held, so it must not block.
type QueueSortFaultHandler interface {
	QueueSortFailed(err *QueueSortError)
}

// Less is the order of the QueueSort plugin. After the plugin has panicked or
// timed out once, ByPriority replaces it.
func (f *Framework) Less(a, b fwk.QueuedEntityInfo) bool {
	if f.queueSortFault.Load() != nil {
		return ByPriority(a, b)
	}
	f.trial.recordCall(f.sort.Name(), "Less")
	if f.outOfTree.Has(f.sort.Name()) && !f.OnTrial() {
		return f.lessWithTimeout(a, b)
	}
	less, err := f.callQueueSort(a, b)
	if err != nil {
		f.recordQueueSortFault(&QueueSortError{Err: err})
	}
	return less
}

func (f *Framework) callQueueSort(a, b fwk.QueuedEntityInfo) (less bool, panicErr *PanicError) {
	defer func() {
		if r := recover(); r != nil {
			less, panicErr = ByPriority(a, b), &PanicError{Plugin: f.sort.Name(), Point: "Less", Value: r, Stack: debug.Stack()}
		}
	}()
	return f.sort.Less(a, b), nil
}

// lessWithTimeout calls an out-of-tree plugin in its own goroutine for
// CallTimeout at most, since the queue's lock is held meanwhile.
func (f *Framework) lessWithTimeout(a, b fwk.QueuedEntityInfo) bool {
	var less bool
	var panicErr *PanicError
	watch, call := f.NewCallWatch(), Call{f.sort.Name(), "Less"}
	watch.Go(func() { less, panicErr = f.callQueueSort(a, b) })
	if watch.Wait(context.Background(), CallTimeout) != nil {
		f.recordQueueSortFault(&QueueSortError{Err: &CallTimeoutError{call}, Watch: watch})
		return ByPriority(a, b)
	}
	if goexit := watch.Goexit(call); goexit != nil {
		less, panicErr = ByPriority(a, b), goexit
	}
	if panicErr != nil {
		f.recordQueueSortFault(&QueueSortError{Err: panicErr})
	}
	return less
}

// recordQueueSortFault stores the fault, and reports the first one. It is
// called under the queue's lock.
func (f *Framework) recordQueueSortFault(err *QueueSortError) {
	f.reportPluginFault(nil, PluginFault{Call: Call{f.sort.Name(), "Less"}, TimedOut: err.Watch != nil})
	if f.queueSortFault.CompareAndSwap(nil, err) && f.QueueSortFaults != nil {
		f.QueueSortFaults.QueueSortFailed(err)
	}
}

// QueueSortFault is the fault after which ByPriority replaced the QueueSort
// plugin, or nil.
func (f *Framework) QueueSortFault() error {
	if err := f.queueSortFault.Load(); err != nil {
		return err
	}
	return nil
}

// ByPriority orders by priority, and pods of equal priority by time in the
// queue. It is the order of PrioritySort.
func ByPriority(a, b fwk.QueuedEntityInfo) bool {
	if mine, other := a.GetPriority(), b.GetPriority(); mine != other {
		return mine > other
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// QueueSortName is the name of the QueueSort plugin.
func (f *Framework) QueueSortName() string { return f.sort.Name() }
