// Package leadership decides whether this process may write: only while it certainly
// holds the Lease. For a new leader it also lists the objects of the cluster.
//
// A leader election alone keeps no process from writing: one that was suspended, or
// cut off from the network, learns late that it has a successor. So each write is
// checked here last, when only the transport is left to pass. A write that passed
// and arrives late is stopped by the successor, which changes the resource version
// that a Binding carries before it schedules anything: see the handover of the
// scheduling loop. The two together need no synchronised clocks, only clocks that
// run at about the same rate.
package leadership

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// ErrNotLeading says that a write was not sent because another process may lead.
var ErrNotLeading = errors.New("not sent: this process may not lead any more")

// Tracker tracks for how long this process leads. It is safe for concurrent use.
type Tracker struct {
	clock    clock.PassiveClock
	validity time.Duration
	onLost   func()

	mu sync.Mutex
	// renewedAt is when the last successful renewal was sent; zero while this process
	// does not lead.
	renewedAt time.Time
	// sentRecord is the renew time of the record that was sent last, and sentAt when that
	// record was sent first.
	sentRecord metav1.Time
	sentAt     time.Time
	epoch      int64
	lease      types.UID
	noElection bool
	// first says that this process created the Lease, and that no leader was known before.
	first bool
	// holder is the holder of the Lease when it was last read or written.
	holder string
}

// New returns the Tracker of a process that does not lead yet. validity is how long
// after a renewal was sent writes may follow. It must be shorter than the duration
// of the Lease by more than clocks drift in that time, as the renew deadline of the
// election is. onLost, which may be nil, is called once for each leadership when
// another process turns out to hold the Lease.
func New(c clock.PassiveClock, term time.Duration, lost func()) *Tracker {
	if lost == nil {
		lost = func() {}
	}
	return &Tracker{clock: c, validity: term, onLost: lost}
}

// DisableElection says that there is no leader election: this process may always
// write.
func (t *Tracker) DisableElection() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.noElection = true
}

// Epoch returns the leader epoch, which is the number of leader transitions in the
// Lease; 0 before this process first leads.
func (t *Tracker) Epoch() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.epoch
}

// LeaseUID returns the UID of the Lease whose transitions Epoch counts: one that is deleted and
// created again counts from 0. It is empty before this process first leads.
func (t *Tracker) LeaseUID() types.UID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lease
}

// First reports whether this process created the Lease, and no leader was known before it.
func (t *Tracker) First() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first
}

// Err returns nil while this process certainly leads, else an error that wraps
// ErrNotLeading.
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
	// The wall clock counts, too: the monotonic clock stands still while a machine is
	// suspended.
	ago := max(now.Sub(t.renewedAt), now.Round(0).Sub(t.renewedAt.Round(0)))
	if ago >= t.validity {
		return fmt.Errorf("%w: the Lease was renewed %s ago, which counts for %s", ErrNotLeading, ago.Round(time.Millisecond), t.validity)
	}
	return nil
}

// CheckRenewal returns an error when this process leads, or did, and has for longer
// than within neither renewed the Lease nor given it up. A process that cannot renew
// has to exit; this check finds one that does not.
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

// firstSent returns when a record is sent first, which is now unless it was sent before.
// LeaderElector sends one record again when its first request failed, which may have taken
// effect: the others saw the record then, and do not see that it is written again.
// Source: k8s.io/client-go/tools/leaderelection, tryAcquireOrRenew.
func (t *Tracker) firstSent(record resourcelock.LeaderElectionRecord) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sentAt.IsZero() || !t.sentRecord.Equal(&record.RenewTime) {
		t.sentRecord, t.sentAt = record.RenewTime, t.clock.Now()
	}
	return t.sentAt
}

// recordRenewal records a successful renewal and when it was sent.
func (t *Tracker) recordRenewal(sent time.Time, record resourcelock.LeaderElectionRecord, lease types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewedAt, t.holder, t.epoch, t.lease = sent, record.HolderIdentity, int64(record.LeaderTransitions), lease
}

// recordCreation records that this process created the Lease, and whether it is the first leader.
func (t *Tracker) recordCreation(first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.first = first
}

// recordLoss records that another process, or none, holds the Lease, and reports
// whether this process led until now.
func (t *Tracker) recordLoss(holder string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	led := !t.renewedAt.IsZero()
	t.renewedAt, t.holder = time.Time{}, holder
	return led
}

// FenceWrites makes clients of config send writes only while this process leads. It
// must be called before other transport wrappers are added that may make a write
// wait, such as a rate limit.
func (t *Tracker) FenceWrites(config *restclient.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return writeFence{next, t} })
}

type writeFence struct {
	next    http.RoundTripper
	tracker *Tracker
}

// RoundTrip sends reads always, and writes while this process leads. Of an answer that leaves open
// whether the write took effect it drops the header that makes client-go send it again: the
// repetition might be refused here, and its caller would take the write for one that was not sent.
func (f writeFence) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || request.Method == http.MethodHead {
		return f.next.RoundTrip(request)
	}
	if err := f.tracker.Err(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // a RoundTripper has to close it
		}
		return nil, err
	}
	response, err := f.next.RoundTrip(request)
	if err == nil && response.StatusCode >= http.StatusInternalServerError {
		response.Header.Del("Retry-After")
	}
	return response, err
}
