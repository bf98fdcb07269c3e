package scheduler

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/decision"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/profile"
)

// findOutWhy begins the explanation of a refusal while the snapshot stands still.
// What takes its time is found out only where it will be written; and nothing is
// missing for a pod for which others leave.
func (s *Scheduler) findOutWhy(ctx context.Context, t *turn, request cycle.Request, err error) {
	var unfit *framework.FitError
	if !s.explains(t.generation.Blueprint()) || !errors.As(err, &unfit) {
		return
	}
	t.why = s.whyRefused(t, err)
	if s.options.Desk.Fresh(*t.why) {
		if t.why.Status.Result != decision.ResultPreempting {
			t.why.Status.Nearest = cycle.Nearest(ctx, request, unfit, s.wording(t))
		}
		s.wordRefusal(t, err)
	}
}

// wordRefusal adds to t.why what does not tell it from another refusal.
func (s *Scheduler) wordRefusal(t *turn, err error) {
	t.why.Status.Message = s.message(t, err)
	var unfit *framework.FitError
	if errors.As(err, &unfit) {
		plugins := unfit.Diagnosis.Unschedulable.Union(unfit.Diagnosis.Pending)
		t.why.Status.WakesOn = wakesOn(t.generation, sets.List(plugins)...)
	}
}

// wakesOn are the events that plugins registered for.
func wakesOn(generation *profile.Generation, plugins ...string) (all []decision.WakesOn) {
	for _, plugin := range plugins {
		if events := generation.WakesOn(plugin); len(events) > 0 {
			all = append(all, decision.WakesOn{Plugin: plugin, Events: decision.Summed(events, func(rest []string) string {
				return fmt.Sprintf("%d more", len(rest))
			})})
		}
	}
	return decision.Summed(all, func(rest []decision.WakesOn) decision.WakesOn {
		return decision.WakesOn{Plugin: fmt.Sprintf("%d more plugins", len(rest)), Events: []string{}}
	})
}

// roomSoughtKey is where an attempt's state holds what came of looking for room.
const roomSoughtKey fwk.StateKey = "berth.dev/RoomSought"

// roomSought is what came of looking for room.
type roomSought decision.Preemption

// Clone returns the same: nobody changes it.
func (r *roomSought) Clone() fwk.StateData { return r }

// roomSoughtBy is what came of it when the search ended with err.
func roomSoughtBy(plan *framework.Eviction, err error) *roomSought {
	var hopeless *framework.FitError
	var ineligible *framework.IneligibleError
	switch {
	case err == nil:
		return &roomSought{Candidates: int32(plan.Candidates), Victims: int32(len(plan.Victims)), Outcome: decision.VictimsChosen}
	case errors.As(err, &hopeless):
		return &roomSought{Outcome: decision.NoCandidates}
	case errors.As(err, &ineligible) && ineligible.Waits:
		return &roomSought{Outcome: decision.UnderWay}
	case errors.As(err, &ineligible):
		return &roomSought{Outcome: decision.NotEligible}
	}
	return &roomSought{Outcome: decision.LookingFailed}
}

// roomSought is what came of looking for room in the turn; nil when nobody did.
func (s *Scheduler) roomSought(t *turn) *decision.Preemption {
	if note, err := t.state.Read(roomSoughtKey); err == nil {
		return (*decision.Preemption)(note.(*roomSought))
	}
	if s.binding.Evicting(t.Pod.UID) {
		return &decision.Preemption{Outcome: decision.UnderWay}
	}
	return nil
}

// othersLeave says whether others are leaving for the pod, as tried has it or a
// PostFilter plugin that promises the pod room.
func (t *turn) othersLeave(tried *decision.Preemption) bool {
	if tried != nil {
		return tried.Outcome == decision.VictimsChosen || tried.Outcome == decision.UnderWay
	}
	return t.nominate != nil && t.nominate.NominatedNodeName != ""
}
