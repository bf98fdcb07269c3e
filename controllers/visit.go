package controllers

import (
	"errors"
	"time"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/profile"
)

// visit is all that one look at a profile found out. The profile's conditions
// are a function of it, and of nothing that was written before.
type visit struct {
	profile *v1alpha1.SchedulingProfile
	// configs are the PluginConfigs that the profile names and that exist.
	configs map[string]*v1alpha1.PluginConfig
	// Exactly one of blueprint and rejection is set.
	blueprint *compile.Blueprint
	rejection *compile.Rejection
	// failure is what Apply returned.
	failure error
	// running is nil when nothing serves the profile's name.
	running *profile.Running
	now     time.Time
}

// programmed reports whether what runs is what the spec asks for now. The
// hash decides: an edit that resolves to the same thing is already running.
func (v visit) programmed() bool {
	return v.failure == nil && v.blueprint != nil && v.running != nil && v.running.Blueprint.Hash == v.blueprint.Hash
}

// programme is the Blueprint to report as running: the new one where it
// resolves to what runs, since that carries the generations of today.
func (v visit) programme() *compile.Blueprint {
	switch {
	case v.programmed():
		return v.blueprint
	case v.running != nil:
		return v.running.Blueprint
	}
	return nil
}

func (v visit) paused() bool { return v.profile.Spec.State == v1alpha1.StatePaused }

// stalled reports whether only the user can move the profile on. A failure
// that is not a plugin's own, such as a server that does not answer, passes.
func (v visit) stalled() bool {
	var build *profile.BuildError
	return v.rejection != nil || errors.As(v.failure, &build)
}
