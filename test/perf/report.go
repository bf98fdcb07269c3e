package main

import (
	"encoding/json"
	"os"
)

// report is all that was measured, as the JSON file has it.
type report struct {
	Machine string `json:"machine"`
	Command string `json:"command"`
	// Plugins are those that Berth's default profile runs.
	Plugins   []string   `json:"plugins"`
	Algorithm []*contest `json:"algorithm,omitempty"`
	// Steps are basic on more and more nodes.
	Steps   []*contest `json:"steps,omitempty"`
	Groups  []*group   `json:"process,omitempty"`
	Skipped []skipped  `json:"skipped,omitempty"`
}

// skipped is what was not measured.
type skipped struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// besides compares each stream beside a crowd with the same one alone.
func (r *report) besides() {
	for _, g := range r.Groups {
		for _, alone := range r.Groups {
			if g.Load == "crowd" && alone.Load == "burst" && alone.Shape == g.Shape {
				g.keep(alone)
			}
		}
	}
}

// alike reports whether the algorithms were shown to decide the same on the
// log of a shape.
func (r *report) alike(shape string) bool {
	for _, c := range r.Algorithm {
		if c.Shape == shape {
			return c.Equal
		}
	}
	return false
}
