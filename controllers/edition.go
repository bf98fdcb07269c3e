package controllers

import (
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
	name     string
	uid      types.UID
	settings compile.DecisionSettings
	page     decision.ProfileHistory
	key      statusKey
}

// statusUpdateFor returns the update for a profile; false when the ledger has no page
// of it.
func (p *publisher) statusUpdateFor(s *v1alpha1.SchedulingProfile) (statusUpdate, bool) {
	settings := p.settings(s)
	page, ok := p.ledger.History(s.Name, settings.History)
	return statusUpdate{
		name: s.Name, uid: s.UID, settings: settings, page: page,
		key: statusKey{since: page.Totals.Since, version: page.Version, queue: page.Queue, history: settings.History},
	}, ok
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
	return berthac.SchedulingProfile(u.name).WithStatus(status)
}

func (u statusUpdate) queue() *berthac.QueueStatusApplyConfiguration {
	q := u.page.Queue
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
		WithResult(v1alpha1.DecisionResult(d.Result)).
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
