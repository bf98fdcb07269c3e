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
	poisonLimit  = 3
	poisonWindow = 10 * time.Minute
	asideFirst   = 5 * time.Minute
	asideLongest = time.Hour
)

// poisoning is what the queue remembers of a pod at which plugins panic or
// hang.
type poisoning struct {
	// at are the times of its poisoned calls within the window, last is the
	// last of them.
	at   []time.Time
	last framework.Poison
	// attempt is the last attempt that counted, changed the one during which the
	// pod changed.
	attempt, changed int
	// until is when the pod is tried again; zero while it is not set aside.
	until time.Time
	// wait is how long it was set aside last.
	wait time.Duration
}

// Poisoned notes that a call of a plugin about the pod with this UID panicked
// or hung. One attempt counts once, whatever it calls; at the gate, where
// nobody counts attempts, each call does. A pod at its limit is set aside as
// soon as its attempt ends.
func (q *Queue) Poisoned(uid types.UID, at framework.Poison) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p, ok := q.pods[uid]
	if !ok || fault.PoisonUncounted {
		return
	}
	if rules := q.rules[p.profile]; rules == nil || rules.Plugins[at.Plugin] != at.Print {
		return // it is another plugin by now
	}
	if p.poison == nil {
		p.poison = &poisoning{}
	}
	if p.poison.attempt == p.attempts && at.Point != atGate || !p.poison.until.IsZero() {
		return
	}
	p.poison.attempt = p.attempts
	p.poison.count(at, q.clock.Now())
	if p.attempts > 0 && p.poison.changed == p.attempts {
		return // it is tried as it is by now
	}
	if p.poison.full() {
		p.poison.set(q.clock.Now())
		setAside.WithLabelValues(p.profile, at.Plugin).Inc()
	}
}

// atGate is the point at which a pod has no attempt.
const atGate = "PreEnqueue"

// count notes one more.
func (p *poisoning) count(at framework.Poison, now time.Time) {
	p.last = at
	p.at = slices.DeleteFunc(p.at, func(t time.Time) bool { return now.Sub(t) > poisonWindow })
	if len(p.at) == 0 {
		p.wait = 0 // it was well for so long that it begins anew
	}
	p.at = append(p.at, now)
}

// full says whether the pod has had its share: of a pod that came back, one
// call more is too much.
func (p *poisoning) full() bool { return len(p.at) >= poisonLimit || p.wait > 0 }

// set sets the pod aside.
func (p *poisoning) set(now time.Time) {
	p.wait = min(max(asideFirst, 2*p.wait), asideLongest)
	p.until = now.Add(p.wait)
}

// release lets the pod be tried again. That it comes back counts as poison, so
// that the next one within the window sets it aside at once.
func (p *poisoning) release(now time.Time) {
	p.until = time.Time{}
	p.at = append(p.at[:0], now)
}

// aside says why p is set aside by now. A pod whose plugin is another one by
// these rules is not, and all is forgotten. Called with the lock.
func (q *Queue) aside(p *Pod, rules *Rules) Hold {
	now := q.clock.Now()
	switch {
	case p.poison == nil || p.poison.until.IsZero():
		return Hold{}
	case !p.poison.until.After(now):
		p.poison.release(now)
		return Hold{}
	case rules.Plugins[p.poison.last.Plugin] != p.poison.last.Print:
		p.poison = nil
		return Hold{}
	}
	did := "panicked in"
	if p.poison.last.Hung {
		did = "did not come back from"
	}
	return Hold{Reason: SetAside, Message: fmt.Sprintf(
		"plugin %q %s %s, again and again: the pod is set aside until %s, unless the pod or the plugin changes before",
		p.poison.last.Plugin, did, p.poison.last.Point, p.poison.until.UTC().Format(time.RFC3339))}
}

// putAside parks p until time, or a change, brings it back. Called with the
// lock.
func (q *Queue) putAside(p *Pod, hold Hold) (news bool) {
	news = q.putParked(p, hold)
	q.asides.add(p)
	return news
}

// renewed notes that p changes into pod, which may be what the plugin needs:
// one that is set aside is tried at once. It reports whether that was so.
// Called with the lock.
func (q *Queue) renewed(p *Pod, pod *v1.Pod) bool {
	if p.poison == nil || sameForPlugins(p.pod, pod) {
		return false
	}
	p.poison.changed = p.attempts
	if p.poison.until.IsZero() {
		return false
	}
	p.poison.release(q.clock.Now())
	return true
}

// asidesEnd lifts the pods whose time is over. Called with the lock.
func (q *Queue) asidesEnd(now time.Time) (back []*Pod) {
	for p := q.asides.peek(); p != nil && !p.poison.until.After(now); p = q.asides.peek() {
		p.poison.release(now)
		q.lift(p)
		back = append(back, p)
	}
	return back
}

// placeBack tries pods again that were set aside.
func (q *Queue) placeBack(ctx context.Context, pods []*Pod) {
	q.place(ctx, "SetAsideComplete", always(immediately), pods...)
}

// sameForPlugins says whether two versions of a pod read the same to every
// plugin; a status does not count.
func sameForPlugins(a, b *v1.Pod) bool {
	return a == b || maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.OwnerReferences, b.OwnerReferences) && equality.Semantic.DeepEqual(a.Spec, b.Spec)
}
