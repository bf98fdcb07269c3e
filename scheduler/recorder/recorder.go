// Package recorder writes Events through a bounded queue that yields to binds: under load
// Events come late rather than not at all. client-go's broadcaster starts a goroutine per
// Event and drops Events when its channel is full, which costs CPU and Events during a burst
// of binds.
//
// Events are those of k8s.io/client-go/tools/events: the same names and references, and an
// Event that repeats within six minutes becomes a series, whose count is written at its
// second occurrence, then every half hour, and at its end.
package recorder

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

var (
	eventsWaiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_events_waiting",
		Help: "[ALPHA] Events that wait to be written. Writing Events yields to binds.",
	})
	eventsDropped = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "berth_events_dropped_total",
		Help: "[ALPHA] Events that were not written: too many waited, or the API server refused them.",
	})
)

// Metrics returns the package's collectors.
func Metrics() []prometheus.Collector { return []prometheus.Collector{eventsWaiting, eventsDropped} }

// Options configure a Recorder.
type Options struct {
	Client eventsclient.EventsV1Interface
	// Scheme knows the kinds of objects that Events may regard.
	Scheme *runtime.Scheme
	Clock  clock.WithTicker
	Log    logr.Logger
	// Go starts a goroutine; nil means framework.Goroutine.
	Go func(func())
	// Busy reports whether binds are in flight, which Events yield to; nil means never.
	Busy func() bool
	// Host names this process among its replicas.
	Host string
	// Limit bounds how many Events wait to be written; 0 means 100,000.
	Limit int
}

// Recorder writes the Events of all profiles. It is safe for concurrent use.
type Recorder struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc

	mu    sync.Mutex
	queue eventQueue
	// later are Events whose write was refused, in the order of repeatAt; repetitions are those of
	// them that are due. Together they are half of Limit at most.
	later, repetitions eventQueue
	series             seriesCache
	// repeating is the number of writers with an Event from repetitions.
	writers, repeating int
	// repeatedLast says that the last Event to be written was one of repetitions.
	repeatedLast bool
	// awaitingDue says that a goroutine waits for Events in later to be due.
	awaitingDue bool
	// limit is how many writers may run: beside no bind one more with each Event written.
	limit int
	// Close sets closed and closes closing. empty is closed when all Events are written
	// after that.
	closed  bool
	closing chan struct{}
	drained sync.Once
	empty   chan struct{}
}

// New returns a Recorder; Close ends it.
func New(o Options) *Recorder {
	if o.Limit == 0 {
		o.Limit = 100_000
	}
	if o.Go == nil {
		o.Go = framework.Goroutine
	}
	if o.Busy == nil {
		o.Busy = func() bool { return false }
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Recorder{options: o, ctx: ctx, cancel: cancel, limit: minWriters, series: newSeriesCache(), closing: make(chan struct{}), empty: make(chan struct{})}
}

// For returns the recorder of a profile, whose name is the Events' reportingController.
func (r *Recorder) For(profile string) events.EventRecorderLogger {
	return profileRecorder{recorder: r, controller: profile, logger: r.options.Log}
}

// profileRecorder records Events with one reportingController.
type profileRecorder struct {
	recorder   *Recorder
	controller string
	logger     klog.Logger
}

// WithLogger returns the same recorder, which logs to logger what it cannot record.
func (p profileRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	p.logger = logger
	return p
}

// Eventf records an Event and never waits. What cannot be an Event is logged and dropped.
func (p profileRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if eventType != v1.EventTypeNormal && eventType != v1.EventTypeWarning {
		p.logger.Error(nil, "Event is not recorded: its type must be Normal or Warning", "type", eventType, "reason", reason)
		return
	}
	id := identity{eventType: eventType, reason: reason, action: action, controller: p.controller}
	var err error
	if id.regarding, err = p.recorder.reference(regarding); err == nil && related != nil {
		id.related, err = p.recorder.reference(related)
	}
	if err != nil {
		p.logger.Error(err, "Event is not recorded: cannot make a reference to its object", "reason", reason, "note", fmt.Sprintf(note, args...))
		return
	}
	p.recorder.record(id, fmt.Sprintf(note, args...))
}

// reference returns the ObjectReference of an object. Nearly all Events regard pods.
func (r *Recorder) reference(object runtime.Object) (v1.ObjectReference, error) {
	if pod, ok := object.(*v1.Pod); ok {
		return v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name,
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		}, nil
	}
	ref, err := reference.GetReference(r.options.Scheme, object)
	if err != nil {
		return v1.ObjectReference{}, err
	}
	return *ref, nil
}

// record counts a repeated Event, or queues a new one.
func (r *Recorder) record(id identity, note string) {
	now := r.options.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.series.observe(id, now); e != nil {
		r.enqueue(e)
		return
	}
	e := &eventEntry{identity: id, note: note, first: now, last: now, count: 1}
	if r.enqueue(e) {
		r.enqueue(r.series.add(e))
	}
}

// enqueue adds an entry to the queue if a write is due. It returns false when the entry was
// dropped because the queue is full or closed. The caller holds the lock.
func (r *Recorder) enqueue(e *eventEntry) bool {
	if e == nil || e.queued || !e.due() {
		return true
	}
	if r.closed || r.waiting() >= r.options.Limit {
		eventsDropped.Inc()
		return false
	}
	r.push(e)
	return true
}

// push adds an entry to the queue and starts writers. The caller holds the lock.
func (r *Recorder) push(e *eventEntry) {
	e.queued, e.queuedAt = true, r.options.Clock.Now()
	r.queue.push(e)
	eventsWaiting.Set(float64(r.waiting()))
	r.startWriters()
}

// NeedLeaderElection reports that each replica records Events.
func (r *Recorder) NeedLeaderElection() bool { return false }

// Start ends series that got no Event for finishTime, until ctx ends.
func (r *Recorder) Start(ctx context.Context) error {
	ticker := r.options.Clock.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C():
			r.mu.Lock()
			for _, e := range r.series.sweep(now) {
				r.enqueue(e)
			}
			r.mu.Unlock()
		}
	}
}

// Close stops recording, and writes the queued Events until ctx ends. The rest counts as
// dropped.
func (r *Recorder) Close(ctx context.Context) {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
		for r.later.len() > 0 {
			r.repetitions.push(r.later.pop())
		}
	}
	r.startWriters()
	r.mu.Unlock()
	select {
	case <-r.empty:
	case <-ctx.Done():
	}
	r.cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.waiting(); left > 0 {
		eventsDropped.Add(float64(left))
		r.options.Log.Info("Events were dropped because the process ends", "events", left)
		r.queue, r.later, r.repetitions = eventQueue{}, eventQueue{}, eventQueue{}
	}
}
