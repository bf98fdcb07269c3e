package controllers

import (
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// observation is what one reconcile found out about a profile. The profile's conditions
// are a function of it, and of nothing that was written before.
type observation struct {
	profile *v1alpha1.SchedulingProfile
	// configs are the PluginConfigs that the profile references and that exist, by
	// name.
	configs map[string]*v1alpha1.PluginConfig
	// Exactly one of blueprint and rejection is set.
	blueprint *compile.Blueprint
	rejection *compile.Rejection
	// servedElsewhere says that the rejection is not about the spec: another scheduler
	// serves the name.
	servedElsewhere bool
	// verdict says whether the spec is to run, and why not.
	verdict history.Verdict
	// blame is the kind of evidence against the spec; empty when there is none.
	blame history.Blame
	// rebuildAfter is how long to wait until a blamed revision that nothing can replace
	// is built; 0 when none is to be built.
	rebuildAfter time.Duration
	// settleAfter is how long to wait until the spec may replace what runs. When it is
	// not 0, nothing below is set.
	settleAfter time.Duration
	// attempt is the attempt to run the spec, or an earlier revision in its place.
	attempt *attempt
	// failure is the error of the trial or the application of the spec.
	failure error
	// fallbackFailure is the error of the best revision that was to run in place of the spec
	// and could not be applied; nil when there was none, or when it failed as the spec did.
	fallbackFailure error
	// deferred is why the spec could not be applied yet; the profile is reconciled
	// again soon.
	deferred error
	// trial is the newest trial about the spec or about what runs; nil when there is
	// none. trialIsNew says that this reconcile made it.
	trial      *profile.Trial
	trialIsNew bool
	// history is the profile's history as this reconcile left it.
	history *history.ProfileHistory
	// running is nil when nothing runs under the profile's name.
	running *profile.Running
	// exported is the result of the export; nil when the profile has none.
	exported *export.Outcome
	now      time.Time
}

// programmed reports whether what the spec resolves to runs. It compares hashes: an
// edit that resolves to the same Blueprint runs already.
func (v observation) programmed() bool {
	return v.failure == nil && v.blueprint != nil && v.running != nil && v.running.Blueprint.Hash == v.blueprint.Hash
}

// runningBlueprint returns the Blueprint to report as running: the newly compiled one
// when it has the running hash, since it has the current generations.
func (v observation) runningBlueprint() *compile.Blueprint {
	switch {
	case v.programmed():
		return v.blueprint
	case v.running != nil:
		return v.running.Blueprint
	}
	return nil
}

// recordFailure sets failure or deferred by the error of applying the spec; nil for
// success.
func (v *observation) recordFailure(err error) {
	if isDeferred(err) {
		v.deferred = err
		return
	}
	v.failure = err
}

// recordFallbackFailure sets fallbackFailure by the error of applying a revision, unless a
// better one failed, or the revision is the spec that failed.
func (v *observation) recordFallbackFailure(candidate history.Candidate, err error) {
	isSpec := v.failure != nil && candidate.Hash == v.blueprint.Hash
	if v.fallbackFailure == nil && !isSpec {
		v.fallbackFailure = fmt.Errorf("revision %s could not be applied: %w", candidate.Revision.Name, err)
	}
}

// attemptFailure returns why the attempt has to be made again; nil when it has not. An attempt
// that nothing runs after may have failed although the spec was not tried: it may be invalid, or
// not be approved.
func (v observation) attemptFailure() error {
	if v.failure == nil && v.running == nil {
		return v.fallbackFailure
	}
	return v.failure
}

// isDeferred reports whether the error means that the spec has to be applied later.
func isDeferred(err error) bool {
	return errors.Is(err, profile.ErrTooManyGenerations) || errors.Is(err, profile.ErrSuperseded) || errors.Is(err, profile.ErrCachesNotSynced)
}

// trialFailed reports whether the spec failed its trial.
func (v observation) trialFailed() bool {
	var failed *profile.TrialError
	return errors.As(v.failure, &failed)
}

func (v observation) paused() bool { return v.profile.Spec.State == v1alpha1.StatePaused }

// stalled reports whether only the user can change the profile's state. An error that
// is not a plugin's, such as an API server that does not answer, is temporary. A spec that is
// blamed and was built all the same, since nothing could replace it, is not stalled.
func (v observation) stalled() bool {
	if v.programmed() {
		return false
	}
	var build *profile.BuildError
	return v.rejection != nil || v.verdict == history.Crashed || v.verdict == history.AwaitingApproval || errors.As(v.failure, &build) || v.trialFailed()
}

// storedRevision returns the name of the ControllerRevision that holds what runs; empty
// when it is not stored.
func (v observation) storedRevision() string {
	if v.history == nil || v.running == nil {
		return ""
	}
	return v.history.StoredName(compile.RevisionName(v.profile.Name, v.running.Blueprint.Hash))
}
