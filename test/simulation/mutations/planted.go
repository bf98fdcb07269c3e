package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// plantedFault is a fault in the files below planted, and what it does.
type plantedFault struct{ name, breaks string }

// layer is a kind of tests that may find planted faults. A budget, its arguments, bounds what
// it may do for each.
type layer struct {
	name, test string
	// pkg is the package of its tests; empty: that of the fault, and scheduler.
	pkg  string
	args []string
}

// layers are the layers, those that take seconds first.
var layers = []layer{
	{name: "units", test: ".*", args: []string{"-test.short", "-test.failfast"}},
	{name: "histories", test: everyHistory, pkg: simulation, args: []string{"-seeds", "4000", "-stop"}},
	{name: "gangs", test: everyGangHistory, pkg: simulation, args: []string{"-gangseeds", "200", "-stop"}},
	{name: "replicas", test: everyReplicaHistory, pkg: simulation, args: []string{"-replicaseeds", "500", "-stop"}},
	{name: "volumes", test: everyVolumeHistory, pkg: simulation, args: []string{"-volumeseeds", "2000", "-stop"}},
	{name: "devices", test: everyDeviceHistory, pkg: simulation, args: []string{"-deviceseeds", "2000", "-stop"}},
	{name: "explanations", test: everyExplanationHistory, pkg: simulation, args: []string{"-explanationseeds", "2000", "-stop"}},
	{name: "controllers", test: everyControllerHistory, pkg: simulation, args: []string{"-controllerseeds", "300", "-stop"}},
}

// finding is what a layer found of a fault.
type finding struct {
	Fault string `json:"fault"`
	Layer string `json:"layer"`
	Found bool   `json:"found"`
	// By is the test that failed, or the seed with what broke.
	By      string  `json:"by,omitempty"`
	Seconds float64 `json:"seconds"`
}

// plantedReport has the findings of each fault and each layer that the tree has.
type plantedReport struct {
	Commit   string    `json:"commit"`
	Findings []finding `json:"findings"`
}

// plantedRun is one run over planted faults.
type plantedRun struct {
	*lab
	faults []plantedFault
	layers []layer
	// pkgs are the packages that each fault changes.
	pkgs map[string][]string
	// passed are the tests that have passed without a fault.
	passed map[killer]bool
	file   string
	report plantedReport
}

// run builds the layers' tests, and runs each of them with each fault. A layer whose tests fail
// without a fault is an error; one that the tree does not have is left out. Findings of an
// earlier run in the file are kept.
func (r *plantedRun) run(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	for _, l := range r.layers {
		for _, f := range r.faults {
			if r.has(f.name, l.name) {
				continue
			}
			found, missing, err := r.try(ctx, l, f)
			switch {
			case err != nil:
				return err
			case missing:
				r.say("%s: the tree has no such tests", l.name)
			default:
				r.report.Findings = append(r.report.Findings, found)
				if err := r.save(); err != nil {
					return err
				}
			}
			if missing {
				break
			}
		}
	}
	r.print()
	return nil
}

// begin writes the overlay, and reads what an earlier run found on the same commit.
func (r *plantedRun) begin(ctx context.Context) error {
	edits, err := readEdits(plantedFiles, "planted")
	if err != nil {
		return err
	}
	r.pkgs, r.passed = map[string][]string{}, map[killer]bool{}
	for _, e := range edits {
		for _, name := range e.mutations() {
			r.pkgs[name] = append(r.pkgs[name], path.Dir(e.file))
		}
	}
	if err := r.writeOverlay(plantedFiles, "planted", plantedNames()); err != nil {
		return err
	}
	describe := exec.CommandContext(ctx, "git", "-C", r.root, "rev-parse", "--short", "HEAD")
	commit, err := describe.Output()
	if err != nil {
		return fmt.Errorf("reading the commit of %s: %w", r.root, err)
	}
	r.report.Commit = strings.TrimSpace(string(commit))
	if r.file == "" {
		return nil
	}
	text, err := os.ReadFile(r.file)
	if os.IsNotExist(err) {
		return nil
	}
	var earlier plantedReport
	if err == nil {
		err = json.Unmarshal(text, &earlier)
	}
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if earlier.Commit != r.report.Commit {
		return fmt.Errorf("--json: %s has findings of commit %s, and this is %s: choose another file", r.file, earlier.Commit, r.report.Commit)
	}
	r.report = earlier
	return nil
}

func (r *plantedRun) has(fault, layer string) bool {
	return slices.ContainsFunc(r.report.Findings, func(f finding) bool { return f.Fault == fault && f.Layer == layer })
}

// try runs a layer with a fault. missing says that the tree has none of its tests.
func (r *plantedRun) try(ctx context.Context, l layer, f plantedFault) (found finding, missing bool, err error) {
	found = finding{Fault: f.name, Layer: l.name}
	for _, pkg := range l.packages(r.pkgs[f.name]) {
		if err := r.ready(ctx, l, pkg); err != nil {
			return found, false, err
		}
		begin := time.Now()
		result := r.runTests(ctx, killer{pkg, l.test}, f.name, l.args...)
		found.Seconds += since(begin).Seconds()
		switch {
		case ctx.Err() != nil:
			return found, false, ctx.Err()
		case strings.Contains(result.output, unknownMutation):
			return found, false, fmt.Errorf("%s: %s\n%s", pkg, result.why, result.output)
		case result.ran == 0:
			return found, true, nil
		case result.red:
			found.Found, found.By = true, pkg+" "+result.why
		}
		if found.Found {
			break
		}
	}
	verdict := "not found"
	if found.Found {
		verdict = "found by " + found.By
	}
	r.say("%s, %s: %s (%.1f s)", l.name, f.name, verdict, found.Seconds)
	return found, false, nil
}

// packages are the packages of the tests that a layer has for a fault of some packages.
func (l layer) packages(changed []string) []string {
	if l.pkg != "" {
		return []string{l.pkg}
	}
	all := slices.Clone(changed)
	if !slices.Contains(all, loop) {
		all = append(all, loop)
	}
	return slices.Compact(all)
}

// ready builds the tests of a package, and requires that the layer's pass without a fault.
func (r *plantedRun) ready(ctx context.Context, l layer, pkg string) error {
	if _, err := os.Stat(r.binary(pkg)); err != nil {
		if err := r.buildTests(ctx, pkg); err != nil {
			return err
		}
	}
	k := killer{pkg, l.test}
	if r.passed[k] {
		return nil
	}
	if result := r.runTests(ctx, k, "", l.args...); result.red {
		return fmt.Errorf("%s: %s fails without a fault: %s\n%s", l.name, pkg, result.why, result.output)
	}
	r.passed[k] = true
	return nil
}

func (r *plantedRun) save() error {
	if r.file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r.report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.file, append(text, '\n'), 0o644)
}

// print prints a line for each fault, with the seconds of each layer that found it, and the
// share of each layer.
func (r *plantedRun) print() {
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(table, "FAULT")
	for _, l := range r.layers {
		_, _ = fmt.Fprint(table, "\t", l.name)
	}
	_, _ = fmt.Fprintln(table, "\tWHAT IT DOES")
	shares, any := map[string]int{}, 0
	for _, f := range r.faults {
		_, _ = fmt.Fprint(table, f.name)
		found := false
		for _, l := range r.layers {
			cell := "-"
			for _, one := range r.report.Findings {
				if one.Fault == f.name && one.Layer == l.name && one.Found {
					cell, found = fmt.Sprintf("%.0f s", one.Seconds), true
					shares[l.name]++
				}
			}
			_, _ = fmt.Fprint(table, "\t", cell)
		}
		if found {
			any++
		}
		_, _ = fmt.Fprintln(table, "\t"+f.breaks)
	}
	_, _ = fmt.Fprintf(table, "%d of %d are found", any, len(r.faults))
	for _, l := range r.layers {
		_, _ = fmt.Fprintf(table, "\t%d", shares[l.name])
	}
	_, _ = fmt.Fprintf(table, "\tcommit %s\n", r.report.Commit)
	_ = table.Flush() // the terminal
}

func plantedNames() []string {
	var all []string
	for _, f := range planted {
		all = append(all, f.name)
	}
	return all
}
