package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/test/support/growth"
)

// merged is what several parts did together.
type merged struct {
	parts, killed int
	took          time.Duration
	began, ended  time.Time
	commits       []string
	machines      []string
	layers        map[string]*total
}

// total is what one layer did in several parts.
type total struct {
	seconds, working float64
	counts           map[string]uint64
	findings         []finding
	// first and next are the range of what was played.
	first, next uint64
	// lines are those of each run of a manager, by quantity; longest are the samples of the
	// longest run.
	lines   map[string][]growth.Line
	longest []growth.Sample
}

// merge adds up parts.
func merge(parts []*part) *merged {
	m := &merged{layers: map[string]*total{}}
	for _, p := range parts {
		m.parts++
		if !p.Complete {
			m.killed++
		}
		m.took += p.Ended.Sub(p.Began)
		if m.began.IsZero() || p.Began.Before(m.began) {
			m.began = p.Began
		}
		if p.Ended.After(m.ended) {
			m.ended = p.Ended
		}
		if commit := p.describeCommit(); !slices.Contains(m.commits, commit) {
			m.commits = append(m.commits, commit)
		}
		if !slices.Contains(m.machines, p.Machine) {
			m.machines = append(m.machines, p.Machine)
		}
		for name, r := range p.Layers {
			m.add(name, r)
		}
	}
	return m
}

// add adds the record of one part.
func (m *merged) add(name string, r *record) {
	t := m.layers[name]
	if t == nil {
		t = &total{counts: map[string]uint64{}, first: r.First, lines: map[string][]growth.Line{}}
		m.layers[name] = t
	}
	t.seconds, t.working = t.seconds+r.Seconds, t.working+r.Working
	t.first, t.next = min(t.first, r.First), max(t.next, r.Next)
	t.findings = append(t.findings, r.Findings...)
	for what, n := range r.Counts {
		t.counts[what] += n
	}
	for _, samples := range r.Samples {
		for quantity, line := range growth.Lines(samples) {
			t.lines[quantity] = append(t.lines[quantity], line)
		}
		if len(samples) > len(t.longest) {
			t.longest = samples
		}
	}
}

// total returns what a layer did; nothing where it did not run.
func (m *merged) total(layer string) *total {
	if t := m.layers[layer]; t != nil {
		return t
	}
	return &total{}
}

// findings returns how many findings all layers had.
func (m *merged) findings() (n int) {
	for _, t := range m.layers {
		n += len(t.findings)
	}
	return n
}

// count returns how much of a unit all layers counted.
func (m *merged) count(unit string) (n uint64) {
	for _, t := range m.layers {
		n += t.counts[unit]
	}
	return n
}

// growths returns one line for each quantity of all runs of managers, and the longest of the runs.
func (m *merged) growths() (lines map[string]growth.Line, longest []growth.Sample) {
	for _, name := range slices.Sorted(maps.Keys(m.layers)) {
		if t := m.layers[name]; len(t.longest) > len(longest) {
			longest = t.longest
		}
	}
	lines = map[string]growth.Line{}
	for quantity, some := range m.runs() {
		if line, ok := growth.Join(some); ok {
			lines[quantity] = line
		}
	}
	return lines, longest
}

// runs returns the lines of all runs of managers, by quantity.
func (m *merged) runs() map[string][]growth.Line {
	all := map[string][]growth.Line{}
	for _, name := range slices.Sorted(maps.Keys(m.layers)) {
		for quantity, some := range m.layers[name].lines {
			all[quantity] = append(all[quantity], some...)
		}
	}
	return all
}

// newest returns the parts of the same commit as the last one, without those of changed sources
// unless the last one is of such.
func newest(parts []*part) []*part {
	if len(parts) == 0 {
		return nil
	}
	last := parts[len(parts)-1]
	return slices.DeleteFunc(slices.Clone(parts), func(p *part) bool { return p.Commit != last.Commit || p.Dirty && !last.Dirty })
}

// bound returns the 95 % upper bound of how often one of n independent runs fails of which none
// failed: 3/n; "" for so few that it says nothing.
func bound(n uint64) string {
	if n < 30 {
		return ""
	}
	return fmt.Sprintf("%.1e", 3/float64(n))
}
