// Package tenure knows for how long this process may write: while it holds the
// Lease for certain, and not a request longer. It also reads, for who begins to
// lead, what there is.
//
// An election alone keeps nobody from writing: a process that was frozen, or cut
// off, learns late that it has a successor. So every write asks here first, when
// nothing but the wire is left to wait for. What passed, and takes long from
// there, is met by the successor, which changes the resource version that a
// Binding carries before it decides anything: see the loop's takeover. The two
// together need no clock that is right, only clocks that run at about one rate.
package leadership

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	restclient "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/fault"
)

// ErrOver says that a write was not sent, since another process may lead.
var ErrNotLeading = errors.New("not sent: this process may not lead any more")

// Tenure is the time for which this process leads. Its methods may be called from
// any goroutine.
type Tracker struct {
	clock    clock.PassiveClock
	validity time.Duration
	onLost   func()

	mu sync.Mutex
	// since is when the last renewal that counted was sent; zero while this
	// process does not lead.
	renewedAt  time.Time
	epoch      int64
	noElection bool
	// created says that this process made the Lease: there was none.
	created bool
	// holder is who held the Lease when it was read last, or written by us.
	holder string
}

// New returns the Tenure of a process that does not lead yet. term is how long
// after a renewal was sent writes may follow: it must be shorter than the Lease's
// duration by more than clocks differ in a term, as the election's renew deadline
// is. lost is called, once for each time this process led, when it turns out that
// another one holds the Lease; it may be nil.
func New(clock clock.PassiveClock, term time.Duration, lost func()) *Tracker {
	if lost == nil {
		lost = func() {}
	}
	return &Tracker{clock: clock, validity: term, onLost: lost}
}

// Alone says that no leader is elected: this process may always write.
func (t *Tracker) DisableElection() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noElection = true
}

// Epoch is the number of this leadership, from the Lease; 0 before the first.
func (t *Tracker) Epoch() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// Created says whether this process made the Lease: no leader was known before it.
func (t *Tracker) CreatedLease() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created
}

// Err is nil while this process leads for certain; else it is ErrOver and says
// more.
func (t *Tracker) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.noElection {
		return nil
	}
	if t.renewedAt.IsZero() {
		return fmt.Errorf("%w: the Lease is held by %q", ErrNotLeading, t.holder)
	}
	now := t.clock.Now()
	// By the wall as well: the other clock stands still while a machine sleeps.
	ago := max(now.Sub(t.renewedAt), now.Round(0).Sub(t.renewedAt.Round(0)))
	if ago >= t.validity && !fault.WritesAfterTenure {
		return fmt.Errorf("%w: the Lease was renewed %s ago, which counts for %s", ErrNotLeading, ago.Round(time.Millisecond), t.validity)
	}
	return nil
}

// Alive fails when this process led, last renewed the Lease longer than within ago,
// and neither gave it up since nor ended, as who cannot renew must.
func (t *Tracker) CheckRenewal(within time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.noElection || t.renewedAt.IsZero() {
		return nil
	}
	if ago := t.clock.Since(t.renewedAt); ago > within {
		return fmt.Errorf("the Lease was last renewed at %s (%v ago), and neither renewed nor given up since",
			t.renewedAt.UTC().Format(time.RFC3339), ago.Round(time.Second))
	}
	return nil
}

// renewed notes a renewal that counted, and when it was sent.
func (t *Tracker) recordRenewal(sent time.Time, holder string, epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewedAt, t.holder, t.epoch = sent, holder, int64(epoch)
}

// made notes that this process made the Lease.
func (t *Tracker) recordCreation() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created = true
}

// over notes that nobody, or somebody else, holds the Lease, and reports whether
// this process did until now.
func (t *Tracker) recordLoss(holder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	led := !t.renewedAt.IsZero()
	t.renewedAt, t.holder = time.Time{}, holder
	return led
}

// Fence lets no write of config pass unless this process leads. It must be put
// there before whatever writes may have to wait for.
func (t *Tracker) FenceWrites(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writeFence{next, t} })
}

type writeFence struct {
	next    http.RoundTripper
	tracker *Tracker
}

// RoundTrip lets reads pass, and writes in time.
func (f writeFence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		if err := f.tracker.Err(); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // nothing was read from it
			}
			return nil, err
		}
	}
	return f.next.RoundTrip(request)
}
