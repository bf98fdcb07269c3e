// Package profile holds the profiles that run now, and replaces them: the hot
// swap. controllers applies Blueprints, the loop acquires Generations.
package profile

import (
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/scheduler/compile"
)

// Running says which Blueprint serves a name, since when, and how it fares.
type Running struct {
	Blueprint *compile.Blueprint
	Since     time.Time
	// Ailments say in whole sentences what is wrong with its plugins.
	Degradations []string
}

// ErrOvertaken says that a newer change of the same profile came while this
// one waited: it was not made, since that one will be.
var ErrSuperseded = errors.New("a newer change of the profile came in between")

// ErrCrowded says that a change has to wait: too many of the profile's older
// generations still have pods to bind.
var ErrTooManyGenerations = fmt.Errorf("%d older generations of the profile have pods on their way; the newest change is made when one of them is done", maxOldGenerations)

// ErrUnlisted says that a trial has to wait until Berth knows what there is.
var ErrCachesNotSynced = errors.New("pods and nodes are still being listed; it is tried on them before it runs")

// BuildError says that a Blueprint compiled but its plugins could not be
// built. What ran before still runs.
type BuildError struct {
	// Plugin is the plugin whose factory failed; may be empty.
	Plugin string
	Err    error
}

func (e *BuildError) Error() string {
	if e.Plugin == "" {
		return "build failed: " + e.Err.Error()
	}
	return "plugin " + e.Plugin + " could not be built: " + e.Err.Error()
}

// Unwrap returns the factory's error.
func (e *BuildError) Unwrap() error { return e.Err }
