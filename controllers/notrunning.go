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
func (v visit) notRunning() string {
	if v.running != nil || v.elsewhere || v.waits != nil || v.verdict == history.Unproven {
		return ""
	}
	return clip(fmt.Sprintf("SchedulingProfile %s does not run: %s", v.profile.Name, v.obstacle()), maxHoldMessage)
}

// obstacle says why the spec does not run. It changes only when that does: each
// change is written to every pod of the profile.
func (v visit) obstacle() string {
	switch {
	case v.rejection != nil:
		return v.title() + " was refused: " + v.rejection.Message()
	case v.failure != nil:
		return v.title() + " failed: " + v.failure.Error()
	case v.verdict == history.Crashed:
		return v.title() + " is blamed for crashes of the scheduler, and no other revision can replace it"
	case v.verdict == history.Awaiting:
		return v.title() + " waits for approval"
	}
	return v.title() + " could not be built"
}

// holdPods tells the pods of a profile under whose name nothing runs.
func (r *profileReconciler) holdPods(v visit) {
	if why := v.notRunning(); why != "" && r.leads() && !fault.HeldUntold {
		r.options.Applier.Hold(v.profile.Name, why)
	}
}
