package framework

import (
	"context"
	"runtime/debug"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/fault"
)

// SortError says why a QueueSort plugin is not asked any more.
type QueueSortError struct {
	// Err is a *PanicError or a *LateError.
	Err error
	// Back is closed when the plugin has come back after all; nil where it was
	// not late.
	Returned <-chan struct{}
}

func (e *QueueSortError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *QueueSortError) Unwrap() error { return e.Err }

// Less is the QueueSort plugin's order. Once the plugin has panicked, or has not
// come back in time, it is not asked again: ByPriority stands in for it.
func (f *Framework) Less(a, b fwk.QueuedEntityInfo) bool {
	if f.queueSortFault.Load() != nil && !fault.BrokenSortKept {
		return ByPriority(a, b)
	}
	f.trial.recordCall(f.sort.Name(), "Less")
	if f.outOfTree.Has(f.sort.Name()) && !f.OnTrial() && !fault.SortWaitedFor {
		return f.lessWithTimeout(a, b)
	}
	less, err := f.callQueueSort(a, b)
	if err != nil {
		f.recordQueueSortFault(&QueueSortError{Err: err})
	}
	return less
}

func (f *Framework) callQueueSort(a, b fwk.QueuedEntityInfo) (less bool, broke *PanicError) {
	defer func() {
		if r := recover(); r != nil {
			less, broke = ByPriority(a, b), &PanicError{Plugin: f.sort.Name(), Point: "Less", Value: r, Stack: debug.Stack()}
		}
	}()
	return f.sort.Less(a, b), nil
}

// lessBeside asks a plugin that is not built in beside the queue, whose lock is
// held meanwhile: everybody waits for the answer, and nobody for longer than
// CallLimit.
func (f *Framework) lessWithTimeout(a, b fwk.QueuedEntityInfo) bool {
	var (
		less, answered bool // read once back is closed
		broke          *PanicError
		back           = make(chan struct{})
	)
	f.Go(func() {
		defer close(back)
		less, broke = f.callQueueSort(a, b)
		answered = true
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := f.Clock.AfterFunc(CallTimeout, cancel)
	defer timer.Stop()
	if f.Wait(ctx, back) != nil || !answered {
		// A plugin that ends its goroutine is back, and gives no answer either.
		f.recordQueueSortFault(&QueueSortError{Err: &CallTimeoutError{Call{f.sort.Name(), "Less"}}, Returned: back})
		return ByPriority(a, b)
	}
	if broke != nil {
		f.recordQueueSortFault(&QueueSortError{Err: broke})
	}
	return less
}

// sortBroke notes that the QueueSort plugin is at fault, and tells of it once. It
// is called under the queue's lock.
func (f *Framework) recordQueueSortFault(err *QueueSortError) {
	f.reportPluginFault(nil, PluginFault{Call: Call{f.sort.Name(), "Less"}, TimedOut: err.Returned != nil})
	if f.queueSortFault.CompareAndSwap(nil, err) && f.OnQueueSortFault != nil && !fault.BrokenSortKept {
		f.OnQueueSortFault(err)
	}
}

// BrokenSort is why the QueueSort plugin is not asked any more, nil while it is.
func (f *Framework) QueueSortFault() error {
	if err := f.queueSortFault.Load(); err != nil {
		return err
	}
	return nil
}

// ByPriority puts the more important pod first, and among equals the one that
// waits longer. It is the order of PrioritySort.
func ByPriority(a, b fwk.QueuedEntityInfo) bool {
	if mine, other := a.GetPriority(), b.GetPriority(); mine != other {
		return mine > other
	}
	return a.GetTimestamp().Before(b.GetTimestamp())
}

// SortName names the QueueSort plugin.
func (f *Framework) QueueSortName() string { return f.sort.Name() }
