package controllers

import (
	"errors"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/controllers/export"
	"github.com/berthdev/berth/controllers/history"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// visit is all that one look at a profile found out. The profile's conditions
// are a function of it, and of nothing that was written before.
type observation struct {
	profile *v1alpha1.SchedulingProfile
	// configs are the PluginConfigs that the profile names and that exist.
	configs map[string]*v1alpha1.PluginConfig
	// Exactly one of blueprint and rejection is set.
	blueprint *compile.Blueprint
	rejection *compile.Rejection
	// elsewhere says that the rejection is not about the spec: another
	// scheduler serves the name.
	servedElsewhere bool
	// verdict is what becomes of the spec.
	verdict history.Verdict
	// blame is the evidence upon which the spec is blamed; empty: it is not.
	blame history.Blame
	// rebuild is how long it is until a blamed revision is built that nothing
	// replaces; 0: none is to be.
	rebuildAfter time.Duration
	// settles is how long it is until the spec may replace what runs; not 0: nothing
	// else of the visit is known.
	settleAfter time.Duration
	// failure is what came of trying and applying the spec.
	failure error
	// waits is why the spec was put off; the visit is made again soon.
	deferred error
	// trial is the newest one that matters; nil when there is none.
	trial *trialReport
	// history is the profile's, as it was left; nil in a follower.
	history *history.ProfileHistory
	// running is nil when nothing serves the profile's name.
	running *profile.Running
	// exported is what came of spec.exports; nil where it asks for nothing.
	exported *export.Outcome
	now      time.Time
}

// programmed reports whether what runs is what the spec asks for now. The
// hash decides: an edit that resolves to the same thing is already running.
func (v observation) programmed() bool {
	return v.failure == nil && v.blueprint != nil && v.running != nil && v.running.Blueprint.Hash == v.blueprint.Hash
}

// programme is the Blueprint to report as running: the new one where it
// resolves to what runs, since that carries the generations of today.
func (v observation) runningBlueprint() *compile.Blueprint {
	switch {
	case v.programmed():
		return v.blueprint
	case v.running != nil:
		return v.running.Blueprint
	}
	return nil
}

// failed notes what came of the spec; nil for nothing.
func (v *observation) recordFailure(err error) {
	if isDeferred(err) {
		v.deferred = err
		return
	}
	v.failure = err
}

// later says whether what failed is only put off.
func isDeferred(err error) bool {
	return errors.Is(err, profile.ErrTooManyGenerations) || errors.Is(err, profile.ErrSuperseded) || errors.Is(err, profile.ErrCachesNotSynced)
}

// failedTrial says whether the spec was tried and failed.
func (v observation) trialFailed() bool {
	var failed *profile.TrialError
	return errors.As(v.failure, &failed)
}

func (v observation) paused() bool { return v.profile.Spec.State == v1alpha1.StatePaused }

// stalled reports whether only the user can move the profile on. A failure
// that is not a plugin's own, such as a server that does not answer, passes.
func (v observation) stalled() bool {
	var build *profile.BuildError
	return v.rejection != nil || v.verdict == history.Crashed || v.verdict == history.AwaitingApproval || errors.As(v.failure, &build) || v.trialFailed()
}

// revision names what holds the whole of what runs; empty when nothing does.
func (v observation) storedRevision() string {
	if v.history == nil || v.running == nil {
		return ""
	}
	return v.history.StoredName(compile.RevisionName(v.profile.Name, v.running.Blueprint.Hash))
}
