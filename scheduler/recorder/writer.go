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
	writersMost = 16
	// writersLeast is how many while binds are under way. It is not none, so
	// that an endless stream of binds silences nothing.
	writersLeast = 2
	// maxTries is how often an Event is sent to an API server that fails.
	maxTries = 12
	// pause keeps a writer from an API server in trouble.
	pause = 10 * time.Second
	// lastPause is pause while the Recorder is being closed.
	lastPause = time.Second
	// writeTimeout bounds one request.
	writeTimeout = 30 * time.Second
)

// allowed is how many writers there may be now. Events yield to binds, until
// so many wait that some could be lost.
func (r *Recorder) allowed() int {
	if !r.closed && r.line.len() < r.options.Limit/2 && r.options.Busy() {
		return writersLeast
	}
	return writersMost
}

// staff starts writers while there is work for more, and tells Close
// when the last has done the last. The caller holds the lock.
func (r *Recorder) staff() {
	for n := min(r.allowed(), r.writers+r.line.len()); r.writers < n; {
		r.writers++
		r.options.Go(r.write)
	}
	if r.closed && r.writers == 0 && r.line.len() == 0 {
		r.drained.Do(func() { close(r.empty) })
	}
}

// write sends what is in line, one after the other.
func (r *Recorder) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.writers <= r.allowed() {
		o := r.line.pop()
		if o == nil {
			break
		}
		waiting.Set(float64(r.line.len()))
		event, known := o.event(r.options.Host), o.told > 0
		told := o.count
		r.mu.Unlock()
		err := r.send(event, known)
		r.mu.Lock()
		o.queued = false
		if err == nil {
			o.told, o.toldAt, o.tries = told, r.options.Clock.Now(), 0
			r.enqueue(o)
		} else {
			r.again(o, err)
		}
		if !fault.EventsYieldForEver {
			r.staff() // binds may have ended
		}
	}
	r.writers--
	r.staff()
}

// again puts an Event that was not written back in line, when another try may
// succeed, and leaves the API server in peace for a while.
func (r *Recorder) again(o *occurrence, err error) {
	o.tries++
	if !temporary(err) || o.tries >= maxTries {
		r.options.Log.Error(err, "An Event is lost", "about", klog.KRef(o.regarding.Namespace, o.regarding.Name),
			"reason", o.reason, "note", o.note, "tries", o.tries)
		dropped.Inc()
		o.told = o.count
		return
	}
	r.rest()
	switch {
	case o.queued, !o.due(): // it happened again meanwhile, and another writer has it
	case r.ctx.Err() != nil, r.closed && fault.PausedEventDropped:
		dropped.Inc()
	default:
		r.push(o)
	}
}

// rest leaves the API server in peace for a while, or until Close asks for what is left.
// The caller holds the lock, which is free meanwhile.
func (r *Recorder) rest() {
	long, wake := pause, r.closing
	if r.closed {
		long, wake = lastPause, nil
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
func temporary(err error) bool {
	var refused apierrors.APIStatus
	if errors.As(err, &refused) {
		return refused.Status().Code >= 500 || apierrors.IsTooManyRequests(err)
	}
	return !errors.As(err, new(*restclient.RequestConstructionError))
}
