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
package tenure

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
var ErrOver = errors.New("not sent: this process may not lead any more")

// Tenure is the time for which this process leads. Its methods may be called from
// any goroutine.
type Tenure struct {
	clock clock.PassiveClock
	term  time.Duration
	lost  func()

	mu sync.Mutex
	// since is when the last renewal that counted was sent; zero while this
	// process does not lead.
	since time.Time
	epoch int64
	alone bool
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
func New(clock clock.PassiveClock, term time.Duration, lost func()) *Tenure {
	if lost == nil {
		lost = func() {}
	}
	return &Tenure{clock: clock, term: term, lost: lost}
}

// Alone says that no leader is elected: this process may always write.
func (t *Tenure) Alone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alone = true
}

// Epoch is the number of this leadership, from the Lease; 0 before the first.
func (t *Tenure) Epoch() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// Created says whether this process made the Lease: no leader was known before it.
func (t *Tenure) Created() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.created
}

// Err is nil while this process leads for certain; else it is ErrOver and says
// more.
func (t *Tenure) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alone {
		return nil
	}
	if t.since.IsZero() {
		return fmt.Errorf("%w: the Lease is held by %q", ErrOver, t.holder)
	}
	now := t.clock.Now()
	// By the wall as well: the other clock stands still while a machine sleeps.
	ago := max(now.Sub(t.since), now.Round(0).Sub(t.since.Round(0)))
	if ago >= t.term && !fault.WritesAfterTenure {
		return fmt.Errorf("%w: the Lease was renewed %s ago, which counts for %s", ErrOver, ago.Round(time.Millisecond), t.term)
	}
	return nil
}

// Alive fails when this process led, last renewed the Lease longer than within ago,
// and neither gave it up since nor ended, as who cannot renew must.
func (t *Tenure) Alive(within time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alone || t.since.IsZero() {
		return nil
	}
	if ago := t.clock.Since(t.since); ago > within {
		return fmt.Errorf("the Lease was last renewed at %s (%v ago), and neither renewed nor given up since",
			t.since.UTC().Format(time.RFC3339), ago.Round(time.Second))
	}
	return nil
}

// renewed notes a renewal that counted, and when it was sent.
func (t *Tenure) renewed(sent time.Time, holder string, epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.holder, t.epoch = sent, holder, int64(epoch)
}

// made notes that this process made the Lease.
func (t *Tenure) made() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.created = true
}

// over notes that nobody, or somebody else, holds the Lease, and reports whether
// this process did until now.
func (t *Tenure) over(holder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	led := !t.since.IsZero()
	t.since, t.holder = time.Time{}, holder
	return led
}

// Fence lets no write of config pass unless this process leads. It must be put
// there before whatever writes may have to wait for.
func (t *Tenure) Fence(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fence{next, t} })
}

type fence struct {
	next http.RoundTripper
	t    *Tenure
}

// RoundTrip lets reads pass, and writes in time.
func (f fence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		if err := f.t.Err(); err != nil {
			if request.Body != nil {
				_ = request.Body.Close() // nothing was read from it
			}
			return nil, err
		}
	}
	return f.next.RoundTrip(request)
}
