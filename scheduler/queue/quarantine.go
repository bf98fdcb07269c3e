package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// A pod is quarantined after faultLimit plugin faults within faultWindow: for
// initialQuarantine at first, and twice as long each time that a plugin fails at
// it again after its release, up to maxQuarantine.
const (
	faultLimit        = 3
	faultWindow       = 10 * time.Minute
	initialQuarantine = 5 * time.Minute
	maxQuarantine     = time.Hour
)

// faultRecord counts the calls of plugins that panicked or hung at one pod.
type faultRecord struct {
	// times are the faults within faultWindow, last is the latest of them.
	times []time.Time
	last  framework.PluginFault
	// attempt is the last attempt in which a fault was counted, changedAttempt the
	// attempt during which the pod itself was updated.
	attempt, changedAttempt int
	// until is when the quarantine ends; zero while the pod is not quarantined.
	until time.Time
	// wait is the duration of the last quarantine.
	wait time.Duration
}

// RecordPluginFault counts a call of a plugin that panicked or hung at the pod
// with this UID. One attempt counts once, however many calls fail in it; at
// PreEnqueue, which belongs to no attempt, each call counts. A pod that reaches
// the limit is quarantined when its attempt ends.
func (q *Queue) RecordPluginFault(uid types.UID, at framework.PluginFault) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok {
		return
	}
	if rules := q.rules[p.profile]; rules == nil || rules.PluginFingerprints[at.Plugin] != at.Fingerprint {
		return // the plugin was replaced since
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
		return // the next attempt tries the updated pod
	}
	if p.faults.limitReached() {
		p.faults.quarantine(q.clock.Now())
		quarantines.WithLabelValues(p.profile, at.Plugin).Inc()
	}
}

// preEnqueuePoint is the extension point whose calls belong to no attempt.
const preEnqueuePoint = "PreEnqueue"

// add counts one fault.
func (p *faultRecord) add(at framework.PluginFault, now time.Time) {
	p.last = at
	p.times = slices.DeleteFunc(p.times, func(t time.Time) bool { return now.Sub(t) > faultWindow })
	if len(p.times) == 0 {
		p.wait = 0 // no fault within the window: start again from initialQuarantine
	}
	p.times = append(p.times, now)
}

// limitReached reports whether the pod is to be quarantined. For a pod that was
// quarantined before, one more fault is enough.
func (p *faultRecord) limitReached() bool { return len(p.times) >= faultLimit || p.wait > 0 }

// quarantine sets the end of the quarantine that begins now.
func (p *faultRecord) quarantine(now time.Time) {
	p.wait = min(max(initialQuarantine, 2*p.wait), maxQuarantine)
	p.until = now.Add(p.wait)
}

// release ends the quarantine. The release counts as a fault, so that the next
// fault within faultWindow quarantines the pod at once.
func (p *faultRecord) release(now time.Time) {
	p.until = time.Time{}
	p.times = append(p.times[:0], now)
}

// quarantineHold returns why p is quarantined, or the zero Hold. A group is quarantined with
// any of its pods, until the last quarantine of one ends. The caller holds q.mu, and no heap
// holds p.
func (q *Queue) quarantineHold(p *Entity, rules *Rules) Hold {
	var last *Entity
	for pod := range p.pods() {
		if q.checkQuarantine(pod, rules) && (last == nil || pod.faults.until.After(last.faults.until)) {
			last = pod
		}
	}
	if p.podGroup != nil {
		p.faults = nil
	}
	if last == nil {
		return Hold{}
	}
	p.faults = last.faults
	verb, what := "panicked", "the pod"
	switch {
	case p.faults.last.TimedOut:
		verb = "hung"
	case p.faults.last.Goexit:
		verb = "ended its goroutine"
	}
	if p.podGroup != nil {
		what = "the group of pod " + last.pod.Name
	}
	return Hold{Reason: Quarantined, Message: fmt.Sprintf(
		"plugin %q %s repeatedly in %s: %s is quarantined until %s, or until the pod or the plugin changes",
		p.faults.last.Plugin, verb, p.faults.last.Point, what, p.faults.until.UTC().Format(time.RFC3339))}
}

// checkQuarantine reports whether a pod is quarantined. It ends a quarantine that has expired,
// and drops the record of a pod whose failing plugin has another fingerprint in rules. The
// caller holds q.mu.
func (q *Queue) checkQuarantine(p *Entity, rules *Rules) bool {
	now := q.clock.Now()
	switch {
	case p.faults == nil || p.faults.until.IsZero():
		return false
	case !p.faults.until.After(now):
		p.faults.release(now)
		return false
	case rules.PluginFingerprints[p.faults.last.Plugin] != p.faults.last.Fingerprint:
		p.faults = nil
		return false
	}
	return true
}

// podChanged takes in that pod p changed. A change that plugins can see may be the
// fix: it ends the quarantine, and podChanged reports whether it did.
// The caller holds q.mu.
func (q *Queue) podChanged(p *Entity, before, after *v1.Pod) bool {
	if p.faults == nil || framework.SameForScheduling(before, after) && maps.Equal(before.Annotations, after.Annotations) {
		return false
	}
	p.faults.changedAttempt = p.attempts
	if p.faults.until.IsZero() {
		return false
	}
	p.faults.release(q.clock.Now())
	return true
}

// endedQuarantines detaches and returns the pods whose quarantine is over. The
// caller holds q.mu.
func (q *Queue) endedQuarantines(now time.Time) (released []*Entity) {
	for p := q.quarantined.peek(); p != nil && !p.faults.until.After(now); p = q.quarantined.peek() {
		p.faults.release(now)
		q.detach(p)
		released = append(released, p)
	}
	return released
}

// requeueReleased requeues pods whose quarantine is over.
func (q *Queue) requeueReleased(ctx context.Context, pods []*Entity) {
	q.requeueAll(ctx, "QuarantineComplete", constantStrategy(queueImmediately), pods...)
}
