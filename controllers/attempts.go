package controllers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/history"
)

// A spec that cannot be built, or that fails its trial, is tried again with a growing delay, and
// so are the revisions in its place where nothing runs. The
// work queue's own delay would not do: controller-runtime ignores RequeueAfter of a reconcile that
// returns an error, and a reconcile has more to do than to try the spec, such as to look whether
// another scheduler is back.

// attemptKey is what a spec is tried for. When it changes, the spec is tried at once.
type attemptKey struct {
	uid        types.UID
	generation int64
	// hash differs also after a change of a PluginConfig.
	hash    string
	verdict history.Verdict // differs after an approval
	retry   string          // the annotation
	leads   bool
}

// attempt is the present or the last attempt to run the spec of a profile, or an earlier
// revision in its place.
type attempt struct {
	key attemptKey
	// failures are the errors by what was tried: what failed is not tried again in this attempt.
	failures map[tried]error
	// retryAt is when the next one is due; zero for an attempt that has not ended.
	retryAt time.Time
}

// tried is what an attempt did with a Blueprint.
type tried struct {
	hash string
	// trialOnly says that it was not to run after its trial.
	trialOnly bool
}

// beginAttempt returns the attempt that failed last while its retry is not due, so that its
// failures are reported and not repeated, and a new one otherwise.
func (r *profileReconciler) beginAttempt(v observation) *attempt {
	key := attemptKey{
		uid: v.profile.UID, generation: v.profile.Generation, verdict: v.verdict,
		retry: v.profile.Annotations[v1alpha1.AnnotationRetry], leads: r.isLeader(),
	}
	if v.blueprint != nil {
		key.hash = v.blueprint.Hash
	}
	if stored, ok := r.failedAttempts.Load(v.profile.Name); ok {
		switch last := stored.(*attempt); {
		case last.key != key:
			r.forgetAttempt(v.profile.Name)
		case r.options.Clock.Now().Before(last.retryAt):
			return last
		}
	}
	return &attempt{key: key, failures: map[tried]error{}}
}

// forgetAttempt lets the next failure of a profile count as its first.
func (r *profileReconciler) forgetAttempt(profile string) {
	r.failedAttempts.Delete(profile)
	r.retryDelays.Forget(profile)
}

// isNew reports whether the attempt is the present one.
func (a *attempt) isNew() bool { return a.retryAt.IsZero() }

// run calls try unless it failed in this attempt, and returns the error.
func (a *attempt) run(what tried, try func() error) error {
	if err := a.failures[what]; err != nil {
		return err
	}
	err := try()
	if err != nil && !isDeferred(err) {
		a.failures[what] = err
	}
	return err
}

// endAttempt remembers an attempt that failed, and returns after what time it is made again; 0
// when it did not fail. An attempt at which a revision failed in place of the spec and after which
// nothing runs is one that failed: the cause may pass, and no other event makes it again.
func (r *profileReconciler) endAttempt(ctx context.Context, v observation) time.Duration {
	failure := v.attemptFailure()
	if failure == nil {
		r.forgetAttempt(v.profile.Name)
		return 0
	}
	now := r.options.Clock.Now()
	if a := v.attempt; a.isNew() {
		delay := r.retryDelays.When(v.profile.Name)
		a.retryAt = now.Add(delay)
		r.failedAttempts.Store(v.profile.Name, a)
		log.FromContext(ctx).Error(failure, "A profile could not be applied", "generation", v.profile.Generation, "retryAfter", delay)
	}
	return max(v.attempt.retryAt.Sub(now), time.Millisecond) // it may have come meanwhile, and 0 waits for nothing
}
