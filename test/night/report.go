package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berthdev/berth/test/support/growth"
)

// page is the page that the report goes into, and picture the curves of the soak beside it.
const page, picture = "docs/reliability.md", "docs/reliability/soak.svg"

// beginMark and endMark enclose the report in the page.
const beginMark, endMark = "<!-- night: begin -->", "<!-- night: end -->"

// writeReport merges the parts of a folder into the page.
func writeReport(ctx context.Context, root, dir string, out io.Writer) error {
	parts, err := readParts(dir)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("%s has no parts: run make night first", dir)
	}
	now := merge(newest(parts))
	_, samples := now.growths()
	drawn := len(growth.AfterWarmUp(samples)) > 1
	if drawn {
		if err := draw(ctx, root, samples); err != nil {
			return err
		}
	}
	report := formatReport(table, now, merge(parts), drawn)
	_, _ = fmt.Fprintln(out, report)
	return insert(filepath.Join(root, filepath.FromSlash(page)), report)
}

// insert replaces the text between the marks.
func insert(path, report string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begun := bytes.Cut(old, []byte(beginMark))
	_, after, ended := bytes.Cut(rest, []byte(endMark))
	if !begun || !ended {
		return fmt.Errorf("%s: must contain the lines %s and %s", path, beginMark, endMark)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s%s\n%s\n%s%s", before, beginMark, report, endMark, after), 0o644)
}

// formatReport formats what was done of the newest commit, and of all together.
func formatReport(layers []layer, now, all *merged, drawn bool) string {
	var text strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&text, format+"\n", args...) }
	const day = "2006-01-02"
	say("%.1f hours in %d parts of commit %s, from %s to %s, on %s. %s", now.took.Hours(), now.parts,
		strings.Join(now.commits, ", "), now.began.Format(day), now.ended.Format(day), strings.Join(now.machines, "; "), killed(now))
	if all.parts > now.parts {
		say("With those of other commits, or of changed sources, which are in the columns \"in all\" alone: %.1f hours in %d parts.", all.took.Hours(), all.parts)
	}
	say("")
	say("| layer | hours | of this commit | in all | findings | one fails in less than (95 %%) |")
	say("|---|---|---|---|---|---|")
	for _, l := range layers {
		t := now.total(l.name)
		fails := ""
		if l.independent && len(t.findings) == 0 {
			fails = bound(t.counts[l.unit])
		}
		say("| %s | %.2f | %s | %s | %d | %s |", l.name, t.seconds/3600, formatCounts(t.counts),
			formatCounts(map[string]uint64{l.unit: all.total(l.name).counts[l.unit]}), len(t.findings), fails)
	}
	say("")
	sayGoals(say, layers, now, all)
	sayGrowth(say, now, drawn)
	sayFindings(say, layers, now)
	if n := all.findings() - now.findings(); n > 0 {
		say("\nThe parts that are not of this commit had %d findings.", n)
	}
	return strings.TrimRight(text.String(), "\n")
}

func killed(m *merged) string {
	if m.killed == 0 {
		return "No part was killed."
	}
	return fmt.Sprintf("%d of the parts did not end by themselves, since they were killed or still run, and count up to their last step.", m.killed)
}

// sayGoals says how far the counts are that have a goal, and changes of the profile.
func sayGoals(say func(string, ...any), layers []layer, now, all *merged) {
	goals := map[string]uint64{"swaps": swapGoal}
	units := []string{"swaps"}
	for _, l := range layers {
		if l.goal > 0 && goals[l.unit] == 0 {
			goals[l.unit] = l.goal
			units = append(units, l.unit)
		}
	}
	slices.Sort(units)
	say("| goal | of this commit | in all | wanted |")
	say("|---|---|---|---|")
	for _, unit := range units {
		say("| %s | %s | %s | %s |", unit, formatCount(now.count(unit)), formatCount(all.count(unit)), formatCount(goals[unit]))
	}
	say("")
}

// swapGoal is how often a profile should be changed under pods in all.
const swapGoal = 10_000

// sayGrowth says what managers held over time.
func sayGrowth(say func(string, ...any), m *merged, drawn bool) {
	lines, _ := m.growths()
	if len(lines) == 0 {
		return
	}
	runs := m.runs()
	say("What a manager holds while pods come and go and its profile changes: the mean, and how much more an")
	say("hour, of %d runs together and of the run whose interval begins highest. A slope is a finding where", len(runs[growth.Quantities[0].Name]))
	say("its whole interval is above the bound, in a run that was sampled for %d minutes after its warm-up.", int(growth.LeastTime.Minutes()))
	say("")
	say("| quantity | mean | an hour (95 %% interval) | steepest run | bound |")
	say("|---|---|---|---|---|")
	for _, q := range growth.Quantities {
		if line, ok := lines[q.Name]; ok {
			steepest := slices.MaxFunc(runs[q.Name], func(a, b growth.Line) int { return cmp.Compare(a.Low, b.Low) })
			say("| %s | %.1f %s | %s | %s, %.0f min | %g |", q.Name, line.Mean, q.Unit, line, steepest, steepest.Minutes, q.Bound)
		}
	}
	say("")
	if drawn {
		say("![what a manager holds over time, in percent of what it held after the warm-up](%s)", strings.TrimPrefix(picture, "docs/"))
		say("")
	}
}

// sayFindings lists the findings of the newest commit.
func sayFindings(say func(string, ...any), layers []layer, m *merged) {
	if m.findings() == 0 {
		say("Nothing was found.")
		return
	}
	for _, l := range layers {
		if t := m.layers[l.name]; t != nil {
			for _, f := range t.findings {
				say("- %s: %s; %s", l.name, asCode(f.What), asCode(f.Repeat))
			}
		}
	}
}

// asCode formats a text so that nothing in it is formatting.
func asCode(text string) string { return "`" + strings.ReplaceAll(text, "`", "'") + "`" }

// curves is what tools/plot draws.
type curves struct {
	Title  string                  `json:"title"`
	X      string                  `json:"x"`
	Y      string                  `json:"y"`
	Curves map[string][][2]float64 `json:"curves"`
}

// draw draws what a manager held over time, with tools/plot.
func draw(ctx context.Context, root string, samples []growth.Sample) error {
	text, err := json.Marshal(curvesOf(samples))
	if err != nil {
		return err
	}
	data := filepath.Join(root, workFolder, "soak.json")
	svg := filepath.Join(root, filepath.FromSlash(picture))
	if err := errors.Join(os.MkdirAll(filepath.Dir(data), 0o755), os.MkdirAll(filepath.Dir(svg), 0o755), os.WriteFile(data, text, 0o644)); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "run", ".", "--curves", data, "--svg", svg)
	cmd.Dir = filepath.Join(root, "tools", "plot")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("drawing %s: %w: %s", picture, err, output)
	}
	return nil
}

// curvesOf returns each quantity in percent of its first value after the warm-up.
func curvesOf(samples []growth.Sample) curves {
	after := growth.AfterWarmUp(samples)
	c := curves{Title: "What a manager holds, after the warm-up", X: "minutes", Y: "percent of the first value", Curves: map[string][][2]float64{}}
	for _, q := range growth.Quantities {
		first := q.Of(after[0])
		if first == 0 {
			continue
		}
		for _, s := range after {
			c.Curves[q.Name] = append(c.Curves[q.Name], [2]float64{s.Seconds / 60, 100 * q.Of(s) / first})
		}
	}
	return c
}
