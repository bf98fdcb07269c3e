package recorder

import (
	"context"
	"encoding/json"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxWriters is how many Events are written at the same time.
	maxWriters = 16
	// minWriters is the limit while binds are in flight. It is not 0, so that Events are
	// written even when binds never stop.
	minWriters = 1
	// lateAfter is how long the first Event waits while binds are in flight before another writer
	// helps, and lateStep how much longer before the next one.
	lateAfter, lateStep = 30 * time.Second, 2 * time.Second
	// writeTimeout bounds one request.
	writeTimeout = 30 * time.Second
)

// writerLimit returns how many writers may run now. Events yield to binds until they are late or
// half of Limit waits. After the last bind they start slowly: sixteen requests at once, in a moment
// without a bind, would delay the next bind. The caller holds the lock.
func (r *Recorder) writerLimit() int {
	if r.closed || r.queue.len() >= r.options.Limit/2 {
		return maxWriters
	}
	if r.options.Busy() {
		r.limit = r.busyLimit()
	}
	return r.limit
}

// busyLimit returns how many writers may run beside binds: a load that does not end would make
// all Events late by what one writer cannot write. The caller holds the lock.
func (r *Recorder) busyLimit() int {
	first := r.queue.first()
	if first == nil {
		return minWriters
	}
	late := r.options.Clock.Since(first.queuedAt) - lateAfter
	return minWriters + int(min(max(late/lateStep, 0), maxWriters-minWriters))
}

// startWriters starts writers up to the limit while there are Events to write, and closes
// empty when Close was called and all are written. The caller holds the lock.
func (r *Recorder) startWriters() {
	for n := min(r.writerLimit(), r.writers+r.queue.len()+r.repeatable()); r.writers < n; {
		r.writers++
		r.options.Go(r.write)
	}
	if r.closed && r.writers == 0 && r.waiting() == 0 {
		r.drained.Do(func() { close(r.empty) })
	}
}

// write writes Events until none is to be written or the limit is exceeded.
func (r *Recorder) write() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.writers <= r.writerLimit() {
		e, repeats := r.next()
		if e == nil {
			break
		}
		if repeats {
			r.repeating++
		}
		eventsWaiting.Set(float64(r.waiting()))
		event, created := e.event(r.options.Host), e.writtenCount > 0
		count := e.count
		r.mu.Unlock()
		err := r.send(event, created)
		r.mu.Lock()
		if repeats {
			r.repeating--
		}
		e.queued = false
		if err == nil {
			e.writtenCount, e.writtenAt, e.tries = count, r.options.Clock.Now(), 0
			r.limit = min(r.limit+1, maxWriters)
			r.enqueue(e)
		} else {
			r.retry(e, err)
		}
		r.startWriters() // binds may have ended
	}
	r.writers--
	r.startWriters()
}

// send creates an Event, or patches the count of one that the API server has.
func (r *Recorder) send(event *eventsv1.Event, created bool) error {
	ctx, cancel := context.WithTimeout(r.ctx, writeTimeout)
	defer cancel()
	client := r.options.Client.Events(event.Namespace)
	if created {
		patch, err := json.Marshal(map[string]any{"series": event.Series})
		if err != nil {
			return err
		}
		_, err = client.Patch(ctx, event.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		// The API server deletes Events after an hour: create it again.
	}
	_, err := client.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier request succeeded, and its response was lost
	}
	return err
}

// eventQueue is a FIFO queue of Events.
type eventQueue struct {
	items []*eventEntry
	head  int
}

func (q *eventQueue) len() int { return len(q.items) - q.head }

func (q *eventQueue) push(e *eventEntry) { q.items = append(q.items, e) }

// first returns the oldest entry; nil when there is none.
func (q *eventQueue) first() *eventEntry {
	if q.len() == 0 {
		return nil
	}
	return q.items[q.head]
}

// pop removes and returns the oldest entry; nil when there is none.
func (q *eventQueue) pop() *eventEntry {
	e := q.first()
	if e == nil {
		return nil
	}
	q.items[q.head] = nil
	q.head++
	if q.head > len(q.items)/2 {
		// Free the slots of popped entries, at a constant amortised cost.
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return e
}
