package controllers

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/controllers/history"
)

// updateHistory writes to the history what this reconcile found out about it, and
// returns after what time to reconcile again; 0 when nothing is waited for.
func (r *profileReconciler) updateHistory(ctx context.Context, v observation) time.Duration {
	if v.servedElsewhere {
		return otherSchedulerPollInterval
	}
	if v.deferred != nil {
		return retryInterval
	}
	if !r.isLeader() {
		if v.verdict == history.Unproven {
			return historyPollInterval
		}
		return 0
	}
	hash, since := "", r.options.Clock.Now()
	if v.running != nil {
		hash, since = v.running.Blueprint.Hash, v.running.Since
	}
	requeueAfter, err := r.options.History.Update(ctx, v.history, hash, since)
	if err != nil {
		log.FromContext(ctx).Error(err, "The profile's history could not be brought up to date")
	}
	switch {
	case v.rebuildAfter > 0:
		return v.rebuildAfter
	case v.verdict == history.Crashed:
		return historyPollInterval
	case v.verdict == history.Run && v.failure == nil && !v.programmed():
		return retryInterval
	}
	return requeueAfter
}
