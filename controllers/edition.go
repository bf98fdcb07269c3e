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

// edition is a ledger's page as it would go into a profile's status now.
type statusUpdate struct {
	name     string
	uid      types.UID
	settings compile.DecisionSettings
	page     decision.ProfileHistory
	key      statusKey
}

// edition reads a profile's page; false when the ledger has none.
func (p *publisher) statusUpdateFor(s *v1alpha1.SchedulingProfile) (statusUpdate, bool) {
	settings := p.settings(s)
	page, ok := p.ledger.History(s.Name, settings.History)
	return statusUpdate{
		name: s.Name, uid: s.UID, settings: settings, page: page,
		key: statusKey{since: page.Totals.Since, version: page.Version, queue: page.Queue, history: settings.History},
	}, ok
}

// settings are those that run; where nothing runs, those that are written.
func (p *publisher) settings(s *v1alpha1.SchedulingProfile) compile.DecisionSettings {
	if running, ok := p.applier.Running(s.Name); ok {
		return running.Blueprint.Decisions
	}
	written := s.Spec.Decisions
	return compile.DecisionSettings{
		History: int(ptr.Deref(written.History, v1alpha1.DefaultHistory)),
		Publish: time.Duration(ptr.Deref(written.PublishSeconds, v1alpha1.DefaultPublishSeconds)) * time.Second,
	}
}

// status is all that the publisher's field manager owns.
func (e statusUpdate) status() runtime.ApplyConfiguration {
	status := berthac.SchedulingProfileStatus().
		WithQueue(e.queue()).
		WithTotals(e.totals()).
		WithOmittedDecisions(e.page.Omitted)
	if !e.page.Last.IsZero() {
		status.WithLastDecisionTime(metav1.NewTime(e.page.Last))
	}
	for _, d := range e.page.Recent {
		status.WithRecentDecisions(recentDecision(d))
	}
	return berthac.SchedulingProfile(e.name).WithStatus(status)
}

func (e statusUpdate) queue() *berthac.QueueStatusApplyConfiguration {
	q := e.page.Queue
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

func (e statusUpdate) totals() *berthac.DecisionTotalsApplyConfiguration {
	t := e.page.Totals
	return berthac.DecisionTotals().
		WithSince(metav1.NewTime(t.Since)).
		WithBound(t.Bound).
		WithRefusals(t.Refusals).
		WithErrors(t.Errors).
		WithVictims(t.Victims).
		WithDecisionsDropped(t.DecisionsDropped)
}

// recent leaves out what is empty: a refused pod has no node, a bound one no
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
