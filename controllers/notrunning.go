package controllers

import (
	"fmt"

	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/fault"
)

// maxHoldMessage is how long the message in the condition of a held pod may be, in
// bytes.
const maxHoldMessage = 1024

// holdMessage says why nothing runs under the profile's name. It is empty when
// something runs, is about to run, or is not to run because another scheduler may serve
// the name.
func (v observation) holdMessage() string {
	if v.running != nil || v.servedElsewhere || v.deferred != nil || v.verdict == history.Unproven {
		return ""
	}
	return truncate(fmt.Sprintf("SchedulingProfile %s does not run: %s", v.profile.Name, v.notRunningReason()), maxHoldMessage)
}

// notRunningReason says why the spec does not run. It must not contain what changes by
// itself, such as times: each change is written to every pod of the profile.
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

// holdPods holds the pods of a profile under whose name nothing runs, and gives them
// the reason.
func (r *profileReconciler) holdPods(v observation) {
	if message := v.holdMessage(); message != "" && r.isLeader() && !fault.HeldUntold {
		r.options.Applier.Hold(v.profile.Name, message)
	}
}
