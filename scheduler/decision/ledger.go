package decision

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
)

// ledgerSize is how many decisions are kept for each profile: the maximum of
// spec.decisions.history.
const ledgerSize = 50

// Totals count a profile's attempts since Since: when this process first opened the
// profile, or the Since of an earlier process whose totals were restored.
type Totals struct {
	Since            time.Time
	Bound            int64
	Refusals         int64
	Errors           int64
	Victims          int64
	DecisionsDropped int64
}

// PublishedHistory is what earlier processes published in a profile's status.
type PublishedHistory struct {
	Totals Totals
	// Last is the time of the newest decision; zero when there was none.
	Last time.Time
	// Recent are the newest decisions, newest first. Omitted is how many decisions Totals
	// count beside them.
	Recent  []Decision
	Omitted int64
}

// ProfileHistory is the ledger's record of one profile.
type ProfileHistory struct {
	// UID is that of the profile.
	UID    types.UID
	Totals Totals
	// Last is the time of the newest decision; zero when there is none.
	Last time.Time
	// Recent are the newest decisions, newest first.
	Recent []Decision
	// Omitted is how many decisions were made beside those in Recent.
	Omitted int64
	// Version grows with each recorded decision, so that a publisher can detect changes.
	Version uint64
}

// Ledger is the bounded record of decisions by profile. A profile is in it from Open to
// Close. It is safe for concurrent use, and recording never waits for a reader's I/O.
type Ledger struct {
	now func() time.Time

	mu       sync.Mutex
	profiles map[string]*profileLedger
	changed  chan struct{}
}

type profileLedger struct {
	uid types.UID
	// totals, last, ring and total are of this process.
	totals    Totals
	last      time.Time
	ring      [ledgerSize]Decision
	total     int64
	published PublishedHistory
	version   uint64
}

// NewLedger returns an empty ledger that reads the time from now.
func NewLedger(now func() time.Time) *Ledger {
	return &Ledger{now: now, profiles: map[string]*profileLedger{}, changed: make(chan struct{}, 1)}
}

// Changed returns a channel that holds one value after something was recorded. Readers
// drain it and then call History: the channel carries no data.
func (l *Ledger) Changed() <-chan struct{} { return l.changed }

// Open adds a profile, unless it is there: its totals start now. One with another UID
// takes the place of the profile that had its name.
func (l *Ledger) Open(profile string, uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, open := l.profiles[profile]; !open || p.uid != uid {
		l.profiles[profile] = &profileLedger{uid: uid, totals: Totals{Since: l.now()}}
	}
}

// Restore adds what earlier processes published of the profile to what was recorded since
// Open, in place of what an earlier call added. It returns false for a profile that is not
// open with that UID.
func (l *Ledger) Restore(profile string, uid types.UID, published PublishedHistory) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, open := l.profiles[profile]
	if !open || p.uid != uid {
		return false
	}
	p.published = published
	return true
}

// add adds earlier totals.
func (t *Totals) add(earlier Totals) {
	if !earlier.Since.IsZero() && earlier.Since.Before(t.Since) {
		t.Since = earlier.Since
	}
	t.Bound += earlier.Bound
	t.Refusals += earlier.Refusals
	t.Errors += earlier.Errors
	t.Victims += earlier.Victims
	t.DecisionsDropped += earlier.DecisionsDropped
}

// Close deletes a profile; another Open starts new totals.
func (l *Ledger) Close(profile string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.profiles, profile)
}

// Record adds a decision to its profile. It ignores decisions of profiles that are not
// open: a bind may end after its profile was deleted, and then no reader would ever close
// the profile again.
func (l *Ledger) Record(d Decision) {
	l.mu.Lock()
	p, open := l.lookup(d.Profile)
	if !open {
		l.mu.Unlock()
		return
	}
	switch d.Result {
	case v1alpha1.ResultBound:
		p.totals.Bound++
	case v1alpha1.ResultUnschedulable:
		p.totals.Refusals++
	case v1alpha1.ResultError:
		p.totals.Errors++
	}
	p.ring[p.total%ledgerSize] = d
	p.total++
	p.last = d.Time
	p.version++
	l.mu.Unlock()
	l.notify()
}

// Evicted adds to the number of pods that were evicted for pods of the profile, if it is
// open.
func (l *Ledger) Evicted(profile string, victims int) {
	if victims == 0 {
		return
	}
	l.mu.Lock()
	p, open := l.lookup(profile)
	if open {
		p.totals.Victims += int64(victims)
		p.version++
	}
	l.mu.Unlock()
	if open {
		l.notify()
	}
}

// Dropped counts an explanation of a pod of the profile that was not written, if the
// profile is open.
func (l *Ledger) Dropped(profile string) {
	l.mu.Lock()
	p, known := l.profiles[profile]
	if known {
		p.totals.DecisionsDropped++
		p.version++
	}
	l.mu.Unlock()
	if known {
		l.notify()
	}
}

// notify puts a value into the channel of Changed.
func (l *Ledger) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// History returns a copy of a profile's record with at most limit recent decisions; false
// for a profile that is not open.
func (l *Ledger) History(profile string, limit int) (ProfileHistory, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.profiles[profile]
	if !ok {
		return ProfileHistory{}, false
	}
	out := ProfileHistory{UID: p.uid, Totals: p.totals, Last: p.last, Version: p.version}
	out.Totals.add(p.published.Totals)
	if out.Last.Before(p.published.Last) {
		out.Last = p.published.Last
	}
	out.Recent, out.Omitted = p.recent(min(limit, ledgerSize))
	return out, true
}

// recent returns at most limit of the newest decisions, and the number of all others.
func (p *profileLedger) recent(limit int) (newest []Decision, omitted int64) {
	own := min(int64(limit), p.total)
	for i := range own {
		newest = append(newest, p.ring[(p.total-1-i)%ledgerSize])
	}
	earlier := min(limit-int(own), len(p.published.Recent))
	newest = append(newest, p.published.Recent[:earlier]...)
	return newest, p.total - own + int64(len(p.published.Recent)-earlier) + p.published.Omitted
}

// lookup returns an open profile's record; false for others. The caller holds the lock.
func (l *Ledger) lookup(profile string) (*profileLedger, bool) {
	p, open := l.profiles[profile]
	return p, open
}
