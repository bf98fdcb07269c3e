package controllers

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/api/v1alpha1"
	berthac "github.com/berthdev/berth/api/v1alpha1/applyconfiguration/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/decision"
)

// statusUpdate is the ledger's page of a profile as it is to be written into the
// profile's status.
type statusUpdate struct {
	name            string
	uid             types.UID
	resourceVersion string
	settings        compile.DecisionSettings
	page            decision.ProfileHistory
	key             statusKey
}

// statusUpdateFor returns the update for a profile; false when the ledger has no page
// of it, or still one of a deleted profile of that name.
func (p *publisher) statusUpdateFor(s *v1alpha1.SchedulingProfile) (statusUpdate, bool) {
	settings := p.settings(s)
	page, ok := p.ledger.History(s.Name, settings.History)
	if !ok || page.UID != s.UID {
		return statusUpdate{}, false
	}
	return statusUpdate{
		name: s.Name, uid: s.UID, resourceVersion: s.ResourceVersion, settings: settings, page: page,
		key: statusKey{since: page.Totals.Since, version: page.Version, queue: p.queue.QueueCounts(s.Name), history: settings.History},
	}, true
}

// settings returns the decision settings that run; where nothing runs, those of the
// spec.
func (p *publisher) settings(s *v1alpha1.SchedulingProfile) compile.DecisionSettings {
	if running, ok := p.applier.Running(s.Name); ok {
		return running.Blueprint.Decisions
	}
	spec := s.Spec.Decisions
	return compile.DecisionSettings{
		History: int(ptr.Deref(spec.History, v1alpha1.DefaultHistory)),
		Publish: time.Duration(ptr.Deref(spec.PublishSeconds, v1alpha1.DefaultPublishSeconds)) * time.Second,
	}
}

// status returns all fields that the publisher's field manager owns.
func (u statusUpdate) status() runtime.ApplyConfiguration {
	status := berthac.SchedulingProfileStatus().
		WithQueue(u.queue()).
		WithTotals(u.totals()).
		WithOmittedDecisions(u.page.Omitted)
	if !u.page.Last.IsZero() {
		status.WithLastDecisionTime(metav1.NewTime(u.page.Last))
	}
	for _, d := range u.page.Recent {
		status.WithRecentDecisions(recentDecision(d))
	}
	return berthac.SchedulingProfile(u.name).WithResourceVersion(u.resourceVersion).WithStatus(status)
}

func (u statusUpdate) queue() *berthac.QueueStatusApplyConfiguration {
	q := u.key.queue
	return berthac.QueueStatus().
		WithPending(int64(q.Pending())).
		WithActive(int64(q.Active)).
		WithBackoff(int64(q.Backoff)).
		WithUnschedulable(int64(q.Unschedulable)).
		WithGated(int64(q.Gated)).
		WithWaiting(int64(q.Waiting)).
		WithHeld(int64(q.Held)).
		WithQuarantined(int64(q.Quarantined)).
		WithInFlight(int64(q.InFlight))
}

func (u statusUpdate) totals() *berthac.DecisionTotalsApplyConfiguration {
	t := u.page.Totals
	return berthac.DecisionTotals().
		WithSince(metav1.NewTime(t.Since)).
		WithBound(t.Bound).
		WithRefusals(t.Refusals).
		WithErrors(t.Errors).
		WithVictims(t.Victims).
		WithDecisionsDropped(t.DecisionsDropped)
}

// recentDecision omits empty fields: an unschedulable pod has no node, a bound one no
// message.
func recentDecision(d decision.Decision) *berthac.RecentDecisionApplyConfiguration {
	out := berthac.RecentDecision().
		WithTime(metav1.NewTime(d.Time)).
		WithNamespace(d.Namespace).
		WithPod(d.Pod).
		WithResult(d.Result).
		WithGeneration(d.Generation).
		WithHash(d.Hash)
	if d.Node != "" {
		out.WithNode(d.Node)
	}
	if d.Message != "" {
		out.WithMessage(truncate(d.Message, v1alpha1.MaxDecisionMessage))
	}
	return out
}

// resumeCounts makes the ledger continue the counts that earlier leaders wrote into the
// statuses, for each profile once. It reads the statuses from the API server, not from
// the cache: the previous leader writes its last counts shortly before it releases the
// Lease. After an error nothing may be published, since the counts could not be read.
func (p *publisher) resumeCounts(ctx context.Context, profiles []v1alpha1.SchedulingProfile) error {
	if p.previous == nil {
		var list v1alpha1.SchedulingProfileList
		if err := request(ctx, func(ctx context.Context) error { return p.live.List(ctx, &list) }); err != nil {
			return fmt.Errorf("reading the counts of earlier leaders: %w", err)
		}
		p.previous = map[profileID]*v1alpha1.SchedulingProfile{}
		for i := range list.Items {
			p.previous[profileIDOf(&list.Items[i])] = &list.Items[i]
		}
	}
	for i := range profiles {
		s, id := &profiles[i], profileIDOf(&profiles[i])
		before, ok := p.previous[id]
		if !ok {
			continue
		}
		if counts := countsInStatus(before); p.ledger.Restore(s.Name, s.UID, counts) {
			p.first[id] = &firstWrite{version: before.ResourceVersion, continued: counts.Totals}
			delete(p.previous, id)
		}
	}
	return nil
}

// profileID distinguishes a profile from a later one with the same name.
type profileID struct {
	name string
	uid  types.UID
}

func profileIDOf(s *v1alpha1.SchedulingProfile) profileID { return profileID{s.Name, s.UID} }

// countsInStatus returns what the publisher of an earlier leader wrote into a profile's
// status.
func countsInStatus(s *v1alpha1.SchedulingProfile) decision.PublishedHistory {
	e := decision.PublishedHistory{Last: timeOf(s.Status.LastDecisionTime), Omitted: s.Status.OmittedDecisions}
	if t := s.Status.Totals; t != nil {
		e.Totals = decision.Totals{
			Since: timeOf(t.Since), Bound: t.Bound, Refusals: t.Refusals, Errors: t.Errors, Victims: t.Victims, DecisionsDropped: t.DecisionsDropped,
		}
	}
	for _, d := range s.Status.RecentDecisions {
		e.Recent = append(e.Recent, decision.Decision{
			Time: d.Time.Time, Namespace: d.Namespace, Pod: d.Pod, Result: d.Result, Node: d.Node,
			Profile: s.Name, Generation: d.Generation, Hash: d.Hash, Message: d.Message,
		})
	}
	return e
}

// sameTotals compares totals as statuses have them, which is with times in whole seconds.
func sameTotals(a, b decision.Totals) bool {
	sameTime := a.Since.Unix() == b.Since.Unix()
	a.Since, b.Since = time.Time{}, time.Time{}
	return sameTime && a == b
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
