package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
)

// report has the results of all targets that ran.
type report struct {
	Targets []result `json:"targets"`
}

// readReport reads a report that an earlier run has written; an empty one if there is no file.
func readReport(file string) (r report, err error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// write replaces the file by this report. A run that is killed leaves the earlier one.
func (r report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// hasPassed reports whether a target passed.
func (r report) hasPassed(t target) bool {
	return slices.ContainsFunc(r.Targets, func(known result) bool { return known.Target == t.String() && known.Result == resultPassed })
}

// add adds a result in place of an earlier one of the target.
func (r *report) add(added result) {
	r.Targets = append(slices.DeleteFunc(r.Targets, func(known result) bool { return known.Target == added.Target }), added)
}

// passed reports whether all targets passed.
func (r report) passed() bool {
	return !slices.ContainsFunc(r.Targets, func(known result) bool { return known.Result != resultPassed })
}

// printTable prints a line for each target, and their sum.
func (r report) printTable(out io.Writer) {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TARGET\tSECONDS\tEXECUTIONS\tNEW\tCORPUS\tRESULT")
	var sum result
	for _, t := range r.Targets {
		text := t.Result
		if t.Finding != "" {
			text += ": " + t.Finding
		}
		fmt.Fprintf(table, "%s\t%.0f\t%d\t%d\t%d\t%s\n", t.Target, t.Seconds, t.Executions, t.New, t.Corpus, text)
		sum.Seconds, sum.Executions, sum.New, sum.Corpus = sum.Seconds+t.Seconds, sum.Executions+t.Executions, sum.New+t.New, sum.Corpus+t.Corpus
	}
	fmt.Fprintf(table, "%d targets\t%.0f\t%d\t%d\t%d\t\n", len(r.Targets), sum.Seconds, sum.Executions, sum.New, sum.Corpus)
	_ = table.Flush() // the terminal
}
