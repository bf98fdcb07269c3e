// Package recorder tells what happened as Events: a bounded line that yields
// to binds, and lags rather than loses. client-go's broadcaster starts a
// goroutine an event and drops what finds its channel full; during a burst of
// binds that is where both the time and the events go.
//
// What the field expects of Events is kept (k8s.io/client-go/tools/events):
// their names and references, and that one which repeats within six minutes
// becomes a series, whose count is written when it becomes two, then every
// half hour, and when it ends.
package recorder

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/framework"
)

// Options are what a Recorder is built from.
type Options struct {
	Client eventsclient.EventsV1Interface
	// Scheme knows the kinds that Events may be about.
	Scheme *runtime.Scheme
	Clock  clock.WithTicker
	Log    logr.Logger
	// Go starts work beside the caller's; nil means a goroutine.
	Go func(func())
	// Busy says whether writes that matter more are under way; nil: never.
	Busy func() bool
	// Host names this process among its like.
	Host string
	// Limit bounds how many Events wait to be written; 0 means 100,000.
	Limit int
}

// Recorder writes the Events of all profiles.
type Recorder struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc

	mu      sync.Mutex
	queue   eventQueue
	series  seriesCache
	writers int
	// closed is set by Close, which closes closing; empty is closed when all is written
	// then.
	closed  bool
	closing chan struct{}
	drained sync.Once
	empty   chan struct{}
}

// New returns a Recorder. Close ends it.
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
	return &Recorder{options: o, ctx: ctx, cancel: cancel, series: newSeriesCache(), closing: make(chan struct{}), empty: make(chan struct{})}
}

// For returns the recorder of a profile: its name is the Events' reporting
// controller.
func (r *Recorder) For(profile string) events.EventRecorderLogger {
	return profileRecorder{recorder: r, controller: profile, logger: r.options.Log}
}

// voice records Events in the name of one controller.
type profileRecorder struct {
	recorder   *Recorder
	controller string
	logger     klog.Logger
}

// WithLogger returns the same voice; what cannot be recorded is logged to
// logger.
func (v profileRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	v.logger = logger
	return v
}

// Eventf records that something happened to regarding. It never waits. What
// cannot be an Event is logged, and lost.
func (v profileRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	if eventType != v1.EventTypeNormal && eventType != v1.EventTypeWarning {
		v.logger.Error(nil, "Not recorded: an Event's type is Normal or Warning", "type", eventType, "reason", reason)
		return
	}
	about := identity{eventType: eventType, reason: reason, action: action, controller: v.controller}
	var err error
	if about.regarding, err = v.recorder.reference(regarding); err == nil && related != nil {
		about.related, err = v.recorder.reference(related)
	}
	if err != nil {
		v.logger.Error(err, "Not recorded: the object cannot be referred to", "reason", reason, "note", fmt.Sprintf(note, args...))
		return
	}
	v.recorder.record(about, fmt.Sprintf(note, args...))
}

// reference is how an Event names an object. Nearly all are about pods.
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

// record notes an Event, and sees that somebody writes it.
func (r *Recorder) record(about identity, note string) {
	now := r.options.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.series.observe(about, now); o != nil {
		r.enqueue(o)
		return
	}
	o := &eventEntry{identity: about, note: note, first: now, last: now, count: 1}
	if r.enqueue(o) {
		r.enqueue(r.series.add(o))
	}
}

// enqueue puts o at the end of the line when there is something to write of
// it, and reports whether it is or was in line.
func (r *Recorder) enqueue(o *eventEntry) bool {
	if o == nil || o.queued || !o.due() {
		return true
	}
	if r.closed || r.queue.len() >= r.options.Limit {
		eventsDropped.Inc()
		return false
	}
	r.push(o)
	return true
}

// push puts o at the end of the line. The caller holds the lock.
func (r *Recorder) push(o *eventEntry) {
	o.queued = true
	r.queue.push(o)
	eventsWaiting.Set(float64(r.queue.len()))
	r.startWriters()
}

// NeedLeaderElection says that any replica may have something to tell.
func (r *Recorder) NeedLeaderElection() bool { return false }

// Start ends series that went quiet, until ctx ends.
func (r *Recorder) Start(ctx context.Context) error {
	ticker := r.options.Clock.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C():
			r.mu.Lock()
			for _, o := range r.series.sweep(now) {
				r.enqueue(o)
			}
			r.mu.Unlock()
		}
	}
}

// Close takes no more Events, and writes those in line for as long as ctx
// allows. What is left then is counted as dropped.
func (r *Recorder) Close(ctx context.Context) {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
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
	if left := r.queue.len(); left > 0 {
		eventsDropped.Add(float64(left))
		r.options.Log.Info("Events were not written before the end", "events", left)
		r.queue = eventQueue{}
	}
}
