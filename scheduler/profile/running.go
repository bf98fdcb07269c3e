// Package profile holds the profiles that run now, and replaces them: the hot
// swap. controllers applies Blueprints, the loop acquires Generations.
package profile

import (
	"time"

	"github.com/berthdev/berth/scheduler/compile"
)

// Running says which Blueprint serves a name, and since when.
type Running struct {
	Blueprint *compile.Blueprint
	Since     time.Time
}

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
