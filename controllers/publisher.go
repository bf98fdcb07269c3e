package controllers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/explainer"
	"github.com/berthdev/berth/scheduler/decision"
)

// minWriteInterval is the least time between two writes of the publisher, over all
// profiles: two writes a second at most.
const minWriteInterval = 500 * time.Millisecond

// publisher copies what the ledger holds of each profile into its status, by
// server-side apply under a field manager of its own, so that it causes no reconcile
// and changes no condition. A record in the ledger wakes it. Changes of queues do not,
// so it also checks each profile once per publish period.
//
// It makes at most one write per minWriteInterval. The profile whose last write is the
// oldest comes first.
type publisher struct {
	profiles client.Reader
	live     client.Reader // reads from the API server, not from the cache
	client   client.StatusClient
	ledger   *decision.Ledger
	queue    QueueCounter
	applier  Applier
	clock    clock.Clock
	wait     explainer.WaitFunc
	// finalWrites is Options.FinalWrites.
	finalWrites func() (context.Context, context.CancelFunc)
	// flushing says that changes are written without waiting for the publish period.
	flushing bool

	// published holds what the status of each profile says already, by profile name.
	published map[string]publishedStatus
	heldPods  heldPodsReporter
	// previous holds the profiles as they were when this process began to publish, of
	// which the ledger does not continue the counts yet; nil until they are read.
	previous map[profileID]*v1alpha1.SchedulingProfile
	// first holds the profiles whose counts the ledger continues, until the first write
	// of other counts that is acknowledged: a write that changes nothing leaves the
	// version, at which one of an earlier leader may still arrive.
	first map[profileID]*firstWrite
}

// firstWrite is what is known of the first write to a profile with counts of an earlier
// leader.
type firstWrite struct {
	// version is the resourceVersion of the profile whose counts the ledger continues, and
	// continued are these counts.
	version   string
	continued decision.Totals
	// totals are those that were sent. One of them may be stored although the request
	// failed.
	totals []decision.Totals
}

func (f *firstWrite) try(t decision.Totals) {
	if !f.tried(t) {
		f.totals = append(f.totals, t)
	}
}

func (f *firstWrite) tried(t decision.Totals) bool {
	return slices.ContainsFunc(f.totals, func(other decision.Totals) bool { return sameTotals(t, other) })
}

// publishedStatus is what was published of a profile, and when.
type publishedStatus struct {
	uid types.UID
	key statusKey
	at  time.Time
}

// statusKey differs between two pages of the ledger that would give different statuses.
type statusKey struct {
	since   time.Time
	version uint64
	queue   decision.QueueCounts
	history int
}

// NewPublisher returns the publisher, which a manager runs while it leads. The fields of o
// that SetupWithManager sets by default are required.
func NewPublisher(cluster Cluster, o Options) manager.Runnable {
	wait := o.Wait
	if wait == nil {
		wait = explainer.WaitWithTimers(o.Clock)
	}
	return &publisher{
		profiles: cluster.Cache, live: cluster.Live, client: cluster.Status, ledger: o.Ledger, queue: o.Queue, applier: o.Applier, clock: o.Clock, wait: wait,
		finalWrites: o.FinalWrites, published: map[string]publishedStatus{}, first: map[profileID]*firstWrite{},
		heldPods: heldPodsReporter{recorder: o.Recorder, reported: map[string]bool{}},
	}
}

// NeedLeaderElection returns true: only the leader writes.
func (p *publisher) NeedLeaderElection() bool { return true }

// Start publishes until ctx ends, and then the decisions that follow until scheduling
// ends. A write that fails is logged and retried a publish period later.
func (p *publisher) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("publisher")
	for {
		next := p.publishOne(ctx, logger)
		if !p.wait(ctx, minWriteInterval, nil) {
			break
		}
		// From now on a record ends the wait: it is published at once if the
		// publish period of its profile is over.
		if !p.wait(ctx, next-minWriteInterval, p.ledger.Changed()) {
			break
		}
	}
	p.publishRemaining(logger)
	return nil
}

// publishRemaining publishes what is left after scheduling ended, in the same order and
// at the same pace, until nothing is left or the context ends.
func (p *publisher) publishRemaining(logger logr.Logger) {
	if p.finalWrites == nil {
		return
	}
	ctx, cancel := p.finalWrites()
	defer cancel()
	p.flushing = true
	for p.wait(ctx, minWriteInterval, nil) && p.publishOne(ctx, logger) == minWriteInterval {
	}
}

// publishOne makes at most one write, and returns after what time to call it again if
// nothing is recorded before.
func (p *publisher) publishOne(ctx context.Context, logger logr.Logger) time.Duration {
	var profiles v1alpha1.SchedulingProfileList
	if err := p.profiles.List(ctx, &profiles); err != nil {
		logger.Error(err, "Profiles could not be listed")
		return time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	}
	if err := p.resumeCounts(ctx, profiles.Items); err != nil {
		logger.Error(err, "Nothing is published until the counts of earlier leaders are read")
		return time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	}
	p.forgetDeleted(profiles.Items)
	now := p.clock.Now()
	due, next := p.due(profiles.Items, now)
	if len(due) == 0 {
		return next
	}
	first := due[0]
	if err := p.write(ctx, first); client.IgnoreNotFound(err) != nil {
		logger.Error(err, "The counters could not be written to the profile's status", "schedulingProfile", first.name)
		first.key = p.published[first.name].key // unchanged, so that it is written again
	}
	p.published[first.name] = publishedStatus{uid: first.uid, key: first.key, at: now}
	if len(due) > 1 {
		return minWriteInterval
	}
	return min(next, first.settings.Publish)
}

// write applies an update at the version of the profile that this process knows, so that
// a write of an earlier leader that arrives later fails: it would take counts back. The
// first write is at the version whose counts the ledger continues. After a conflict write
// goes on with the newer version.
func (p *publisher) write(ctx context.Context, u statusUpdate) error {
	id := profileID{u.name, u.uid}
	first := p.first[id]
	if first != nil {
		u.resourceVersion = first.version
	}
	for attempt := 1; ; attempt++ {
		if first != nil {
			first.try(u.page.Totals)
		}
		err := request(ctx, func(ctx context.Context) error {
			return p.client.Status().Apply(ctx, u.status(), countersFieldManager, client.ForceOwnership)
		})
		if err == nil && first != nil && !sameTotals(first.continued, u.page.Totals) {
			delete(p.first, id)
		}
		if !apierrors.IsConflict(err) || attempt == maxWriteAttempts {
			return err
		}
		var now v1alpha1.SchedulingProfile
		if err := request(ctx, func(ctx context.Context) error { return p.live.Get(ctx, client.ObjectKey{Name: u.name}, &now) }); err != nil {
			return err
		}
		if now.UID != u.uid {
			return nil // what is due for the new profile is found at the next turn
		}
		u.resourceVersion = now.ResourceVersion
		if first != nil {
			u.page = p.resumeAgain(u, first, &now)
		}
	}
}

// resumeAgain makes the ledger continue the counts that the profile has now, unless this
// process wrote them, and returns what the ledger holds then.
func (p *publisher) resumeAgain(u statusUpdate, first *firstWrite, now *v1alpha1.SchedulingProfile) decision.ProfileHistory {
	earlier := countsInStatus(now)
	first.version, first.continued = now.ResourceVersion, earlier.Totals
	if !first.tried(earlier.Totals) {
		p.ledger.Restore(u.name, u.uid, earlier)
	}
	if page, ok := p.ledger.History(u.name, u.settings.History); ok && page.UID == u.uid {
		return page
	}
	return u.page
}

// due returns the updates that may be written now and differ from the status, the least
// recently written first, and after what time to check the others.
func (p *publisher) due(profiles []v1alpha1.SchedulingProfile, now time.Time) ([]statusUpdate, time.Duration) {
	var due []statusUpdate
	next := time.Duration(v1alpha1.DefaultPublishSeconds) * time.Second
	for i := range profiles {
		e, known := p.statusUpdateFor(&profiles[i])
		if !known {
			continue
		}
		p.heldPods.observe(&profiles[i], e.key.queue.Held)
		last, published := p.published[e.name]
		remaining := last.at.Add(e.settings.Publish).Sub(now)
		switch {
		case published && remaining > 0 && !p.flushing:
			next = min(next, remaining)
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
	maps.DeleteFunc(p.first, func(id profileID, _ *firstWrite) bool {
		return !slices.ContainsFunc(profiles, func(s v1alpha1.SchedulingProfile) bool { return profileIDOf(&s) == id })
	})
	for name := range p.published {
		if !slices.ContainsFunc(profiles, func(s v1alpha1.SchedulingProfile) bool { return s.Name == name }) {
			delete(p.published, name)
			p.heldPods.forget(name)
		}
	}
}

// heldPodsThreshold is how many held pods of a profile make an Event on the profile.
// The condition PodScheduled of each pod reports fewer.
const heldPodsThreshold = 10

// heldPodsReporter makes one Event for each profile that has that many held pods, and
// another one only after it had none.
type heldPodsReporter struct {
	recorder events.EventRecorder
	reported map[string]bool
}

func (c *heldPodsReporter) observe(p *v1alpha1.SchedulingProfile, held int) {
	switch {
	case held == 0:
		delete(c.reported, p.Name)
	case held >= heldPodsThreshold && !c.reported[p.Name]:
		c.reported[p.Name] = true
		c.recorder.Eventf(p, nil, corev1.EventTypeWarning, "PodsHeld", "Scheduling",
			"%d pods of the profile are held; each pod's condition PodScheduled gives the reason, as fast as the rate limit of such writes allows", held)
	}
}

func (c *heldPodsReporter) forget(name string) { delete(c.reported, name) }
