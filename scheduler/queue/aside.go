package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// A pod is set aside after so many poisoned calls within poisonWindow, for
// asideFirst, and each time that it comes back and poisons one more for twice
// as long, up to asideLongest.
const (
	faultLimit        = 3
	faultWindow       = 10 * time.Minute
	initialQuarantine = 5 * time.Minute
	maxQuarantine     = time.Hour
)

// poisoning is what the queue remembers of a pod at which plugins panic or
// hang.
type faultRecord struct {
	// at are the times of its poisoned calls within the window, last is the
	// last of them.
	times []time.Time
	last  framework.PluginFault
	// attempt is the last attempt that counted, changed the one during which the
	// pod changed.
	attempt, changedAttempt int
	// until is when the pod is tried again; zero while it is not set aside.
	until time.Time
	// wait is how long it was set aside last.
	wait time.Duration
}

// Poisoned notes that a call of a plugin about the pod with this UID panicked
// or hung. One attempt counts once, whatever it calls; at the gate, where
// nobody counts attempts, each call does. A pod at its limit is set aside as
// soon as its attempt ends.
func (q *Queue) RecordPluginFault(uid types.UID, at framework.PluginFault) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || fault.PoisonUncounted {
		return
	}
	if rules := q.rules[p.profile]; rules == nil || rules.PluginFingerprints[at.Plugin] != at.Fingerprint {
		return // it is another plugin by now
	}
	if p.faults == nil {
		p.faults = &faultRecord{}
	}
	if p.faults.attempt == p.attempts && at.Point != preEnqueuePoint || !p.faults.until.IsZero() {
		return
	}
	p.faults.attempt = p.attempts
	p.faults.add(at, q.clock.Now())
	if p.attempts > 0 && p.faults.changedAttempt == p.attempts {
		return // it is tried as it is by now
	}
	if p.faults.limitReached() {
		p.faults.quarantine(q.clock.Now())
		quarantines.WithLabelValues(p.profile, at.Plugin).Inc()
	}
}

// atGate is the point at which a pod has no attempt.
const preEnqueuePoint = "PreEnqueue"

// count notes one more.
func (p *faultRecord) add(at framework.PluginFault, now time.Time) {
	p.last = at
	p.times = slices.DeleteFunc(p.times, func(t time.Time) bool { return now.Sub(t) > faultWindow })
	if len(p.times) == 0 {
		p.wait = 0 // it was well for so long that it begins anew
	}
	p.times = append(p.times, now)
}

// full says whether the pod has had its share: of a pod that came back, one
// call more is too much.
func (p *faultRecord) limitReached() bool { return len(p.times) >= faultLimit || p.wait > 0 }

// set sets the pod aside.
func (p *faultRecord) quarantine(now time.Time) {
	p.wait = min(max(initialQuarantine, 2*p.wait), maxQuarantine)
	p.until = now.Add(p.wait)
}

// release lets the pod be tried again. That it comes back counts as poison, so
// that the next one within the window sets it aside at once.
func (p *faultRecord) release(now time.Time) {
	p.until = time.Time{}
	p.times = append(p.times[:0], now)
}

// aside says why p is set aside by now. A pod whose plugin is another one by
// these rules is not, and all is forgotten. Called with the lock.
func (q *Queue) quarantineHold(p *Pod, rules *Rules) Hold {
	now := q.clock.Now()
	switch {
	case p.faults == nil || p.faults.until.IsZero():
		return Hold{}
	case !p.faults.until.After(now):
		p.faults.release(now)
		return Hold{}
	case rules.PluginFingerprints[p.faults.last.Plugin] != p.faults.last.Fingerprint:
		p.faults = nil
		return Hold{}
	}
	did := "panicked in"
	if p.faults.last.TimedOut {
		did = "did not come back from"
	}
	return Hold{Reason: Quarantined, Message: fmt.Sprintf(
		"plugin %q %s %s, again and again: the pod is set aside until %s, unless the pod or the plugin changes before",
		p.faults.last.Plugin, did, p.faults.last.Point, p.faults.until.UTC().Format(time.RFC3339))}
}

// putAside parks p until time, or a change, brings it back. Called with the
// lock.
func (q *Queue) quarantinePod(p *Pod, hold Hold) (news bool) {
	news = q.holdPod(p, hold)
	q.quarantined.add(p)
	return news
}

// renewed notes that p changes into pod, which may be what the plugin needs:
// one that is set aside is tried at once. It reports whether that was so.
// Called with the lock.
func (q *Queue) podChanged(p *Pod, pod *v1.Pod) bool {
	if p.faults == nil || equalForPlugins(p.pod, pod) {
		return false
	}
	p.faults.changedAttempt = p.attempts
	if p.faults.until.IsZero() {
		return false
	}
	p.faults.release(q.clock.Now())
	return true
}

// asidesEnd lifts the pods whose time is over. Called with the lock.
func (q *Queue) endedQuarantines(now time.Time) (back []*Pod) {
	for p := q.quarantined.peek(); p != nil && !p.faults.until.After(now); p = q.quarantined.peek() {
		p.faults.release(now)
		q.detach(p)
		back = append(back, p)
	}
	return back
}

// placeBack tries pods again that were set aside.
func (q *Queue) requeueReleased(ctx context.Context, pods []*Pod) {
	q.requeueAll(ctx, "SetAsideComplete", constantStrategy(queueImmediately), pods...)
}

// sameForPlugins says whether two versions of a pod read the same to every
// plugin; a status does not count.
func equalForPlugins(a, b *v1.Pod) bool {
	return a == b || maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
