package controllers

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
)

// writeInterval is the least time between two writes over all profiles: two a
// second, whatever is decided.
const minWriteInterval = 500 * time.Millisecond

// publisher copies what the ledger holds of each profile into its status, by
// server-side apply under a field manager of its own, so that it wakes no
// reconcile and touches no verdict. Records wake it; queues do not, so it also
// looks at a profile once in its publish period.
//
// It writes at most once a turn, and takes at most one turn an interval; whose
// last write is longest ago comes first.
type publisher struct {
	profiles client.Reader
	live     client.Reader // past the cache
	client   client.StatusClient
	ledger   *decision.Ledger
	applier  Applier
	clock    clock.Clock
	// lastWords is Options'.
	finalWrites func() (context.Context, context.CancelFunc)
	// hurried says that what changed is due, whenever it was written last.
	flushing bool

	// shown is what the status of each profile says already, by name.
	published map[string]publishedStatus
	heldPods  heldPodsReporter
	// earlier is what statuses said when this process began to publish, of profiles whose
	// pages have not gone on from it; nil until it is read.
	previous map[profileID]decision.PublishedHistory
}

// shown is what was published of a profile, and when.
type publishedStatus struct {
	uid types.UID
	key statusKey
	at  time.Time
}

// face is what makes two pages differ for a reader of the status.
type statusKey struct {
	since   time.Time
	version uint64
	queue   decision.QueueCounts
	history int
}

func newPublisher(c client.Client, live client.Reader, o Options) *publisher {
	return &publisher{
		profiles: c, live: live, client: c, ledger: o.Ledger, applier: o.Applier, clock: o.Clock, finalWrites: o.FinalWrites, published: map[string]publishedStatus{},
		heldPods: heldPodsReporter{recorder: o.Recorder, reported: map[string]bool{}},
	}
}

// NeedLeaderElection keeps followers from writing.
func (p *publisher) NeedLeaderElection() bool { return true }

// Start publishes until ctx ends, and then what was decided until the end. A
// write that fails is logged and made again a publish period later.
func (p *publisher) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("publisher")
	for {
		next := p.publishOne(ctx, logger)
		if !p.wait(ctx, minWriteInterval, nil) {
			return p.publishRemaining(logger)
		}
		// A record that comes now is published at once, if its profile's
		// period is over; before, it waited for the interval.
		if !p.wait(ctx, next-minWriteInterval, p.ledger.Changed()) {
			return p.publishRemaining(logger)
		}
	}
}

// finish publishes what is left when nothing more is decided, in the order and at
// the pace of always, and as far as it comes.
func (p *publisher) publishRemaining(logger logr.Logger) error {
	if p.finalWrites == nil || fault.LastWordsLost {
		return nil
	}
	ctx, cancel := p.finalWrites()
	defer cancel()
	p.flushing = true
	for p.wait(ctx, minWriteInterval, nil) && p.publishOne(ctx, logger) == minWriteInterval {
	}
	return nil
}

// wait returns after d, or when something arrives on wake; false when ctx
// ended.
func (p *publisher) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := p.clock.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C():
	}
	return true
}

// turn makes at most one write and returns how long it may be until the next
// turn, if nothing is recorded before.
func (p *publisher) publishOne(ctx context.Context, logger logr.Logger) time.Duration {
	var profiles v1alpha1.SchedulingProfileList
	if err := p.profiles.List(ctx, &profiles); err != nil {
		logger.Error(err, "Profiles could not be listed")
		return time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	}
	if err := p.resumeCounts(ctx, profiles.Items); err != nil {
		logger.Error(err, "Nothing is published until this is known")
		return time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	}
	p.forgetDeleted(profiles.Items)
	now := p.clock.Now()
	due, next := p.due(profiles.Items, now)
	if len(due) == 0 {
		return next
	}
	first := due[0]
	if err := p.client.Status().Apply(ctx, first.status(), countersFieldManager, client.ForceOwnership); client.IgnoreNotFound(err) != nil {
		logger.Error(err, "What was decided could not be written to the profile's status", "schedulingProfile", first.name)
		first.key = p.published[first.name].key // as it was: try again
	}
	p.published[first.name] = publishedStatus{uid: first.uid, key: first.key, at: now}
	if len(due) > 1 {
		return minWriteInterval
	}
	return min(next, first.settings.Publish)
}

// due lists what may be written now and differs from what the status says,
// longest unwritten first, and says when to look at the others.
func (p *publisher) due(profiles []v1alpha1.SchedulingProfile, now time.Time) ([]statusUpdate, time.Duration) {
	var due []statusUpdate
	next := time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	for i := range profiles {
		e, known := p.statusUpdateFor(&profiles[i])
		if !known {
			continue
		}
		p.heldPods.observe(&profiles[i], e.page.Queue.Held)
		last, published := p.published[e.name]
		rest := last.at.Add(e.settings.Publish).Sub(now)
		switch {
		case published && rest > 0 && !p.flushing:
			next = min(next, rest)
		case !published || last.uid != e.uid || last.key != e.key:
			due = append(due, e)
		default:
			next = min(next, e.settings.Publish)
		}
	}
	slices.SortStableFunc(due, func(a, b statusUpdate) int { return p.published[a.name].at.Compare(p.published[b.name].at) })
	return due, next
}

func (p *publisher) forgetDeleted(profiles []v1alpha1.SchedulingProfile) {
	for name := range p.published {
		if !slices.ContainsFunc(profiles, func(s v1alpha1.SchedulingProfile) bool { return s.Name == name }) {
			delete(p.published, name)
			p.heldPods.forget(name)
		}
	}
}
