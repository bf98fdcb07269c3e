package controllers

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/fault"
)

// resumeCounts makes the ledger continue the counts that earlier leaders wrote into the
// statuses, for each profile once. It reads the statuses from the API server, not from
// the cache: the previous leader writes its last counts shortly before it releases the
// Lease. After an error nothing may be published, since the counts could not be read.
func (p *publisher) resumeCounts(ctx context.Context, profiles []v1alpha1.SchedulingProfile) error {
	if p.previous == nil {
		var list v1alpha1.SchedulingProfileList
		if err := p.live.List(ctx, &list); err != nil {
			return fmt.Errorf("reading the counts of earlier leaders: %w", err)
		}
		p.previous = map[profileID]decision.PublishedHistory{}
		for i := range list.Items {
			p.previous[profileIDOf(&list.Items[i])] = countsInStatus(&list.Items[i])
		}
	}
	for i := range profiles {
		s, id := &profiles[i], profileIDOf(&profiles[i])
		before, ok := p.previous[id]
		if ok && !fault.CountsStartAnew && p.ledger.Restore(s.Name, before) {
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
			Time: d.Time.Time, Namespace: d.Namespace, Pod: d.Pod, Result: decision.Result(d.Result), Node: d.Node,
			Profile: s.Name, Generation: d.Generation, Hash: d.Hash, Message: d.Message,
		})
	}
	return e
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
