package controllers

import (
	"fmt"

	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/fault"
)

// maxHoldMessage is the longest message, in bytes, that a held pod's condition gets.
const maxHoldMessage = 1024

// notRunning says why nothing runs under the profile's name; empty where something
// does, is about to, or need not: another scheduler may serve the name.
func (v observation) holdMessage() string {
	if v.running != nil || v.servedElsewhere || v.deferred != nil || v.verdict == history.Unproven {
		return ""
	}
	return truncate(fmt.Sprintf("SchedulingProfile %s does not run: %s", v.profile.Name, v.notRunningReason()), maxHoldMessage)
}

// obstacle says why the spec does not run. It changes only when that does: each
// change is written to every pod of the profile.
func (v observation) notRunningReason() string {
	switch {
	case v.rejection != nil:
		return v.specName() + " was refused: " + v.rejection.Message()
	case v.failure != nil:
		return v.specName() + " failed: " + v.failure.Error()
	case v.verdict == history.Crashed:
		return v.specName() + " is blamed for crashes of the scheduler, and no other revision can replace it"
	case v.verdict == history.AwaitingApproval:
		return v.specName() + " waits for approval"
	}
	return v.specName() + " could not be built"
}

// holdPods tells the pods of a profile under whose name nothing runs.
func (r *profileReconciler) holdPods(v observation) {
	if why := v.holdMessage(); why != "" && r.isLeader() && !fault.HeldUntold {
		r.options.Applier.Hold(v.profile.Name, why)
	}
}
