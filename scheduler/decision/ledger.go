package decision

import (
	"sync"
	"time"

	"github.com/berthdev/berth/scheduler/fault"
)

// ledgerSize bounds the decisions kept for each profile: spec.decisions.history
// allows no more than 50.
const ledgerSize = 50

// Totals count a profile's attempts since Since: the moment when this process first
// heard of the profile, or the one from which an earlier process counted.
type Totals struct {
	Since            time.Time
	Bound            int64
	Refusals         int64
	Errors           int64
	Victims          int64
	DecisionsDropped int64
}

// Earlier is what earlier processes published of a profile.
type PublishedHistory struct {
	Totals Totals
	// Last is when the newest decision was made; zero when there was none.
	Last time.Time
	// Recent are the newest decisions, newest first, and Omitted how many Totals count
	// beside them.
	Recent  []Decision
	Omitted int64
}

// Page is what the ledger knows of one profile.
type ProfileHistory struct {
	Totals Totals
	// Last is when the newest decision was made; zero when there is none.
	Last time.Time
	// Recent are the newest decisions, newest first.
	Recent []Decision
	// Omitted is how many decisions were made that Recent does not hold.
	Omitted int64
	// Queue says where the profile's pods wait.
	Queue QueueCounts
	// Version grows with each recorded decision, so that a publisher can tell
	// whether anything changed.
	Version uint64
}

// Ledger is the bounded record of decisions, by profile, from Open to Close. It is safe for
// concurrent use; recording never blocks on a reader's I/O.
type Ledger struct {
	now func() time.Time

	mu          sync.Mutex
	profiles    map[string]*profileLedger
	changed     chan struct{}
	queueCounts func(profile string) QueueCounts
}

type profileLedger struct {
	totals    Totals
	last      time.Time
	ring      [ledgerSize]Decision
	total     int64 // of this process
	published PublishedHistory
	version   uint64
}

// NewLedger returns an empty ledger that reads the time from now.
func NewLedger(now func() time.Time) *Ledger {
	return &Ledger{now: now, profiles: map[string]*profileLedger{}, changed: make(chan struct{}, 1)}
}

// CountQueueWith sets where Page.Queue comes from. Call it before the ledger
// is read; f must not call the ledger.
func (l *Ledger) SetQueueCounts(f func(profile string) QueueCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queueCounts = f
}

// Changed holds one value after anything was recorded. Readers drain it and
// then read pages: the channel carries no data.
func (l *Ledger) Changed() <-chan struct{} { return l.changed }

// Open starts a profile's totals now, unless they run already.
func (l *Ledger) Open(profile string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.getOrCreate(profile)
}

// Continue has the profile's page go on from what earlier processes published, beside
// what was recorded since Open. Call it once a page; it does nothing and returns false
// where there is none.
func (l *Ledger) Restore(profile string, from PublishedHistory) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, open := l.profiles[profile]
	if !open {
		return false
	}
	p.published = from
	p.totals.add(from.Totals)
	if p.last.Before(from.Last) {
		p.last = from.Last
	}
	return true
}

// add counts what was counted before as well.
func (t *Totals) add(before Totals) {
	if !before.Since.IsZero() && before.Since.Before(t.Since) {
		t.Since = before.Since
	}
	t.Bound += before.Bound
	t.Refusals += before.Refusals
	t.Errors += before.Errors
	t.Victims += before.Victims
	t.DecisionsDropped += before.DecisionsDropped
}

// Close forgets a profile: its totals start afresh should it come back.
func (l *Ledger) Close(profile string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.profiles, profile)
}

// Record adds one decision to its profile's page. A bind may end after its
// profile was deleted: where there is no page, nobody would read the decision, and
// nobody would close the page.
func (l *Ledger) Record(d Decision) {
	l.mu.Lock()
	p, open := l.lookup(d.Profile)
	if !open {
		l.mu.Unlock()
		return
	}
	switch d.Result {
	case Bound:
		p.totals.Bound++
	case Unschedulable:
		p.totals.Refusals++
	case Error:
		p.totals.Errors++
	}
	p.ring[p.total%ledgerSize] = d
	p.total++
	p.last = d.Time
	p.version++
	l.mu.Unlock()
	l.notify()
}

// Evicted adds to the pods that were evicted for pods of the profile, if it has a
// page.
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

// Dropped adds to the explanations of the profile's pods that were not written.
// It reports nothing of a profile that the ledger never heard of.
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

// tell leaves word that something was recorded.
func (l *Ledger) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Page returns a copy of what is known of profile, with at most history recent
// decisions. It reports false for a profile the ledger never heard of.
func (l *Ledger) History(profile string, history int) (ProfileHistory, bool) {
	l.mu.Lock()
	p, ok := l.profiles[profile]
	if !ok {
		l.mu.Unlock()
		return ProfileHistory{}, false
	}
	out := ProfileHistory{Totals: p.totals, Last: p.last, Version: p.version}
	out.Recent, out.Omitted = p.recent(min(history, ledgerSize))
	count := l.queueCounts
	l.mu.Unlock()
	// Outside the lock: the counts come from the queue, which has its own.
	if count != nil {
		out.Queue = count(profile)
	}
	return out, true
}

// recent returns the newest decisions, at most so many, and how many there were beside
// them.
func (p *profileLedger) recent(most int) (newest []Decision, omitted int64) {
	own := min(int64(most), p.total)
	for i := range own {
		newest = append(newest, p.ring[(p.total-1-i)%ledgerSize])
	}
	earlier := min(most-int(own), len(p.published.Recent))
	newest = append(newest, p.published.Recent[:earlier]...)
	return newest, p.total - own + int64(len(p.published.Recent)-earlier) + p.published.Omitted
}

// opened returns the page of a profile; false where Open did not come before, or
// Close came after. Called with the lock.
func (l *Ledger) lookup(profile string) (*profileLedger, bool) {
	if fault.LedgerPageReopened {
		return l.getOrCreate(profile), true
	}
	p, open := l.profiles[profile]
	return p, open
}

func (l *Ledger) getOrCreate(profile string) *profileLedger {
	p, ok := l.profiles[profile]
	if !ok {
		p = &profileLedger{totals: Totals{Since: l.now()}}
		l.profiles[profile] = p
	}
	return p
}
