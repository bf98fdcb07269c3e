package decision

import (
	"encoding/json"
	"fmt"
)

// Read returns the Decision that an annotation holds, as far as it was written
// there: Annotation's other direction. Keys that are not known are left alone.
// The error says what it is instead.
func ParseAnnotation(annotation string) (Decision, error) {
	var r annotationRecord
	if err := json.Unmarshal([]byte(annotation), &r); err != nil {
		return Decision{}, fmt.Errorf("is not the JSON of a decision: %w", err)
	}
	if r.Version != 1 {
		return Decision{}, fmt.Errorf("has version %d, 1 is known", r.Version)
	}
	return Decision{
		Result: Bound, Profile: r.Profile, Generation: r.Generation, Hash: r.Hash, Epoch: r.Epoch,
		Node: r.Node, Evaluated: r.Evaluated, Feasible: r.Feasible, Attempts: r.Attempts, Walk: r.Walk, Top: r.Top,
	}, nil
}
