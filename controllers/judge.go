package controllers

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/scheduler/compile"
)

// judge notes in the history what this visit tells about it, and returns when
// to look again; 0 when nothing is waited for.
func (r *profileReconciler) judge(ctx context.Context, v visit) time.Duration {
	if v.elsewhere {
		return elsewherePause
	}
	if v.waits != nil {
		return lookAgain
	}
	if !r.leads() {
		if v.verdict == compile.Unproven {
			return lookAtHistory
		}
		return 0
	}
	var again time.Duration
	if v.running != nil {
		var err error
		again, err = r.options.History.Judge(ctx, v.history, v.profile.Name, v.running.Blueprint.Hash, v.running.Since)
		if err != nil {
			log.FromContext(ctx).Error(err, "The profile's history could not be brought up to date")
		}
	}
	switch {
	case v.verdict == compile.Crashed:
		return lookAtHistory
	case v.verdict == compile.Run && v.failure == nil && !v.programmed():
		return lookAgain
	}
	return again
}
