package simulation

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	schedprofile "github.com/berthdev/berth/scheduler/profile"
)

// checkStatusWrite checks a write of a status that the server commits, by a leader with an epoch.
func (sim *simulation) checkStatusWrite(before, after *v1alpha1.SchedulingProfile, epoch int64) {
	sim.count("a status is written")
	if last := sim.controllers.writtenBy[before.UID]; epoch < last {
		sim.failf("the leader with epoch %d writes the status of %s, after the one with epoch %d did", epoch, before.Name, last)
	}
	if from, to := before.Status.ObservedGeneration, after.Status.ObservedGeneration; to < from || to > after.Generation {
		sim.failf("the status of %s goes from generation %d to %d, of %d", before.Name, from, to, after.Generation)
	}
	a, b := before.Status.Totals, after.Status.Totals
	if a == nil {
		return
	}
	if b == nil || b.Bound < a.Bound || b.Refusals < a.Refusals || b.Errors < a.Errors || b.Victims < a.Victims || b.DecisionsDropped < a.DecisionsDropped {
		sim.failf("the totals of %s go back from %+v to %+v", before.Name, a, b)
	} else if b.Since.After(a.Since.Time) {
		sim.failf("the totals of %s are since %v, and were since %v", before.Name, b.Since, a.Since)
	}
}

// reported says, where nothing else is left to do, whether all statuses are true. It fails where
// they are not within statusBudget.
func (sim *simulation) reported() bool {
	return !sim.controllers.on || sim.isTrueWithin(statusBudget, &sim.controllers.quietSince, sim.untrueStatus())
}

// untrueStatus names a status that is not that of what the leader does.
func (sim *simulation) untrueStatus() string {
	for _, p := range sim.profiles {
		object := find[*v1alpha1.SchedulingProfile](sim.server, p.name)
		running, runs := sim.sched.Profiles().Running(p.name)
		if object == nil {
			if runs {
				return fmt.Sprintf("profile %s runs and was deleted", p.name)
			}
			continue
		}
		s, accepted := &object.Status, meta.FindStatusCondition(object.Status.Conditions, string(v1alpha1.ConditionAccepted))
		programmed := meta.FindStatusCondition(s.Conditions, string(v1alpha1.ConditionProgrammed))
		switch {
		case s.ObservedGeneration != object.Generation || accepted == nil || programmed == nil:
			return fmt.Sprintf("the status of %s is of generation %d of %d", p.name, s.ObservedGeneration, object.Generation)
		case (accepted.Status == metav1.ConditionFalse) != p.spec.refused:
			return fmt.Sprintf("%s is accepted: %s, %s", p.name, accepted.Status, accepted.Message)
		case runs != (s.Programmed != nil) || runs && s.Programmed.Hash != running.Blueprint.Hash:
			return fmt.Sprintf("the status of %s says that %+v runs", p.name, s.Programmed)
		case programmed.Status == metav1.ConditionTrue && (!runs || sim.specOf[running.Blueprint.Hash] != p.spec.number):
			return fmt.Sprintf("%s is not programmed, and its status says so: %s", p.name, programmed.Message)
		case programmed.Status == metav1.ConditionFalse && !sim.mayNotRun(p, programmed.Reason):
			return fmt.Sprintf("%s is not programmed: %s, %s", p.name, programmed.Reason, programmed.Message)
		}
		if why := untrueDegraded(object, running.Degradations); why != "" {
			return why
		}
		if why := sim.untrueCounts(object); why != "" {
			return why
		}
		sim.count("a status is true: " + programmed.Reason)
	}
	return ""
}

// untrueDegraded says what the condition Degraded has that is not true of the plugins that run.
func untrueDegraded(object *v1alpha1.SchedulingProfile, now schedprofile.Degradations) string {
	degraded := meta.FindStatusCondition(object.Status.Conditions, string(v1alpha1.ConditionDegraded))
	switch {
	case degraded == nil && len(now) > 0:
		return fmt.Sprintf("the status of %s does not say that its plugins are degraded: %v", object.Name, now)
	case degraded != nil && (len(now) == 0 || degraded.Reason != string(now[0].Reason)):
		return fmt.Sprintf("%s is degraded: %s, %s, and that is not true", object.Name, degraded.Reason, degraded.Message)
	}
	return ""
}

// mayNotRun says whether a spec need not run for a reason.
func (sim *simulation) mayNotRun(p *profile, reason string) bool {
	switch v1alpha1.ConditionReason(reason) {
	case v1alpha1.ReasonTrialFailed, v1alpha1.ReasonCrashedOnProbation:
		return true // its plugins fail by chance, and leaders end by chance
	case v1alpha1.ReasonBuildFailed:
		return p.spec.build != ""
	}
	return p.spec.refused
}

// untrueCounts says what the counters of a status have that is not true.
func (sim *simulation) untrueCounts(object *v1alpha1.SchedulingProfile) string {
	s, counts := &object.Status, sim.sched.QueueCounts(object.Name)
	if s.Queue == nil || s.Totals == nil {
		return fmt.Sprintf("the status of %s has no counters", object.Name)
	}
	if s.Queue.Unschedulable != int64(counts.Unschedulable) || s.Queue.Held != int64(counts.Held) || s.Queue.Gated != int64(counts.Gated) {
		return fmt.Sprintf("the status of %s has the queue %+v, and it is %+v", object.Name, *s.Queue, counts)
	}
	return ""
}

// requiredControllerEvents are what a thousand seeds of histories of controllers must have seen.
func requiredControllerEvents() []string {
	all := []string{
		"a leader is killed with a status on its way", "that status says Degraded", "plugins of a profile are degraded, or recover",
		"a status is written", "a write of a status changes nothing", "a reconcile fails", "a swap", "a crash", leaderElected,
		"a late status of an earlier leader is refused", "late " + writeStatus + " refused", "late " + writeStatus + " done",
		writeStatus + " refused", writeRevision + " done", writeRevision + " refused",
		"a status is true: " + string(v1alpha1.ReasonProgrammed), "a status is true: " + string(v1alpha1.ReasonBuildFailed),
		"a status is true: " + string(v1alpha1.ReasonPreviousRuns), "a status is true: " + string(v1alpha1.ReasonNothingRuns),
		"a status is true: " + string(v1alpha1.ReasonTrialFailed), "a status is true: " + string(v1alpha1.ReasonCrashedOnProbation),
	}
	for _, kind := range slices.Concat(controllerKinds, reportKinds) {
		all = append(all, kind.name)
	}
	return all
}

const leaderElected = "a leader is elected"
