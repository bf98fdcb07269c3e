package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// writersMost is how many Events are written at once.
	maxWriters = 16
	// writersLeast is how many while binds are under way. It is not none, so
	// that an endless stream of binds silences nothing.
	minWriters = 2
	// maxTries is how often an Event is sent to an API server that fails.
	maxTries = 12
	// pause keeps a writer from an API server in trouble.
	retryDelay = 10 * time.Second
	// lastPause is pause while the Recorder is being closed.
	closingRetryDelay = time.Second
	// writeTimeout bounds one request.
	writeTimeout = 30 * time.Second
)

// allowed is how many writers there may be now. Events yield to binds, until
// so many wait that some could be lost.
func (r *Recorder) writerLimit() int {
	if !r.closed && r.queue.len() < r.options.Limit/2 && r.options.Busy() {
		return minWriters
	}
	return maxWriters
}

// staff starts writers while there is work for more, and tells Close
// when the last has done the last. The caller holds the lock.
func (r *Recorder) startWriters() {
	for n := min(r.writerLimit(), r.writers+r.queue.len()); r.writers < n; {
		r.writers++
		r.options.Go(r.write)
	}
	if r.closed && r.writers == 0 && r.queue.len() == 0 {
		r.drained.Do(func() { close(r.empty) })
	}
}

// write sends what is in line, one after the other.
func (r *Recorder) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.writers <= r.writerLimit() {
		o := r.queue.pop()
		if o == nil {
			break
		}
		eventsWaiting.Set(float64(r.queue.len()))
		event, known := o.event(r.options.Host), o.writtenCount > 0
		told := o.count
		r.mu.Unlock()
		err := r.send(event, known)
		r.mu.Lock()
		o.queued = false
		if err == nil {
			o.writtenCount, o.writtenAt, o.tries = told, r.options.Clock.Now(), 0
			r.enqueue(o)
		} else {
			r.retry(o, err)
		}
		if !fault.EventsYieldForEver {
			r.startWriters() // binds may have ended
		}
	}
	r.writers--
	r.startWriters()
}

// again puts an Event that was not written back in line, when another try may
// succeed, and leaves the API server in peace for a while.
func (r *Recorder) retry(o *eventEntry, err error) {
	o.tries++
	if !isRetriable(err) || o.tries >= maxTries {
		r.options.Log.Error(err, "An Event is lost", "about", klog.KRef(o.regarding.Namespace, o.regarding.Name),
			"reason", o.reason, "note", o.note, "tries", o.tries)
		eventsDropped.Inc()
		o.writtenCount = o.count
		return
	}
	r.backOff()
	switch {
	case o.queued, !o.due(): // it happened again meanwhile, and another writer has it
	case r.ctx.Err() != nil, r.closed && fault.PausedEventDropped:
		eventsDropped.Inc()
	default:
		r.push(o)
	}
}

// rest leaves the API server in peace for a while, or until Close asks for what is left.
// The caller holds the lock, which is free meanwhile.
func (r *Recorder) backOff() {
	long, wake := retryDelay, r.closing
	if r.closed {
		long, wake = closingRetryDelay, nil
	}
	r.mu.Unlock()
	defer r.mu.Lock()
	select {
	case <-r.options.Clock.After(long):
	case <-wake:
	case <-r.ctx.Done():
	}
}

// send writes one Event, or the count of one that the API server knows.
func (r *Recorder) send(event *eventsv1.Event, known bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, writeTimeout)
	defer cancel()
	client := r.options.Client.Events(event.Namespace)
	if known {
		patch, err := json.Marshal(map[string]any{"series": event.Series})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		// Events live for an hour: this one is told anew.
	}
	_, err := client.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier try counted, and its answer was lost
	}
	return err
}

// temporary says whether the same request may succeed later: the API server
// could not be reached, or is in trouble.
func isRetriable(err error) bool {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		return refused.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
	}
	return !errors.As(err, new(*restclient.RequestConstructionError))
}
