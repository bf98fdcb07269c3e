package controllers

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/controllers/history"
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
		if v.verdict == history.Unproven {
			return lookAtHistory
		}
		return 0
	}
	hash, since := "", r.options.Clock.Now()
	if v.running != nil {
		hash, since = v.running.Blueprint.Hash, v.running.Since
	}
	again, err := r.options.History.Judge(ctx, v.history, hash, since)
	if err != nil {
		log.FromContext(ctx).Error(err, "The profile's history could not be brought up to date")
	}
	switch {
	case v.rebuild > 0:
		return v.rebuild
	case v.verdict == history.Crashed:
		return lookAtHistory
	case v.verdict == history.Run && v.failure == nil && !v.programmed():
		return lookAgain
	}
	return again
}
