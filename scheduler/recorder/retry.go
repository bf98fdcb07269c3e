package recorder

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// maxTries is how often an Event is sent while the API server returns errors.
	maxTries = 12
	// retryDelay is the time between two tries.
	retryDelay = 10 * time.Second
	// closingRetryDelay is retryDelay during Close.
	closingRetryDelay = time.Second
	// maxRepeating is how many writers repeat a write that was refused: Events of a namespace whose
	// webhook is down leave writers for others.
	maxRepeating = 2
)

// next removes and returns the Event to write next, and whether it was refused before; nil when
// there is none. One writer alone takes turns: neither kind waits for all of the other. The caller
// holds the lock.
func (r *Recorder) next() (e *eventEntry, repeats bool) {
	if r.repeatable() > 0 && (!r.repeatedLast || r.queue.len() == 0) {
		r.repeatedLast = true
		return r.repetitions.pop(), true
	}
	r.repeatedLast = false
	return r.queue.pop(), false
}

// repeatable returns how many more writers may repeat a write now. The caller holds the lock.
func (r *Recorder) repeatable() int {
	most := maxRepeating
	if r.closed && r.queue.len() == 0 {
		most = maxWriters
	}
	return min(r.repetitions.len(), max(most-r.repeating, 0))
}

// setApart returns how many Events that were refused wait. The caller holds the lock.
func (r *Recorder) setApart() int { return r.later.len() + r.repetitions.len() }

// waiting returns how many Events wait. The caller holds the lock.
func (r *Recorder) waiting() int { return r.queue.len() + r.setApart() }

// retry handles a failed write: it drops the Event if the error is final or half of Limit was
// refused, which leaves the other half to Events of others. Otherwise the Event is sent again, by
// this writer after a pause where the API server was not reached. The caller holds the lock.
func (r *Recorder) retry(e *eventEntry, err error) {
	e.tries++
	refused := answered(err)
	switch {
	case !isRetriable(err) || e.tries >= maxTries || refused && r.setApart() >= r.options.Limit/2:
		r.options.Log.Error(err, "An Event is dropped", "regarding", klog.KRef(e.regarding.Namespace, e.regarding.Name),
			"reason", e.reason, "note", e.note, "tries", e.tries)
		eventsDropped.Inc()
		e.writtenCount = e.count
		return
	case refused && r.ctx.Err() == nil:
		r.repeatLater(e)
		return
	}
	r.pause(r.retryDelay())
	switch {
	case e.queued, !e.due(): // it occurred again meanwhile, and another writer took it
	case r.ctx.Err() != nil:
		eventsDropped.Inc()
	default:
		r.push(e)
	}
}

// repeatLater has an Event written again after retryDelay. The caller holds the lock.
func (r *Recorder) repeatLater(e *eventEntry) {
	e.queued, e.repeatAt = true, r.options.Clock.Now().Add(r.retryDelay())
	r.later.push(e)
	eventsWaiting.Set(float64(r.waiting()))
	if !r.awaitingDue {
		r.awaitingDue = true
		r.options.Go(r.awaitDue)
	}
}

// awaitDue moves Events from later to repetitions when they are due, until none is left there or
// Close has ended.
func (r *Recorder) awaitDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.later.len() > 0 && r.ctx.Err() == nil {
		r.pause(r.later.first().repeatAt.Sub(r.options.Clock.Now()))
		r.moveDue()
	}
	r.awaitingDue = false
}

// moveDue moves the Events that are due from later to repetitions. The caller holds the lock.
func (r *Recorder) moveDue() {
	for now := r.options.Clock.Now(); r.later.len() > 0 && !now.Before(r.later.first().repeatAt); {
		r.repetitions.push(r.later.pop())
	}
	r.startWriters()
}

// retryDelay returns the time between two tries. The caller holds the lock.
func (r *Recorder) retryDelay() time.Duration {
	if r.closed {
		return closingRetryDelay
	}
	return retryDelay
}

// pause waits for delay, or until Close is called. It releases the lock, which the caller holds,
// while it waits.
func (r *Recorder) pause(delay time.Duration) {
	wake := r.closing
	if r.closed {
		wake = nil
	}
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-r.options.Clock.After(delay):
	case <-wake:
	case <-r.ctx.Done():
	}
}

// answered reports whether err is an answer of the API server.
func answered(err error) bool { return errors.As(err, new(apierrors.APIStatus)) }

// isRetriable reports whether the same request may succeed later: the API server was not
// reached, is overloaded or returned an internal error.
func isRetriable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
	}
	return !errors.As(err, new(*restclient.RequestConstructionError))
}
