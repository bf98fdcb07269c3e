package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berthdev/berth/test/support/growth"
)

// readTest reads the output of a test binary that plays seeds. repeat returns the command for a
// failing seed.
func readTest(s step, o outcome, unit string, repeat func(seed string) string) reading {
	if o.ended {
		return reading{}
	}
	if o.err == nil {
		if !ran.Match(o.output) {
			return reading{findings: []finding{{What: "no test ran"}}}
		}
		return reading{counts: map[string]uint64{unit: s.count}}
	}
	var done reading
	for _, match := range failedSeed.FindAllSubmatch(o.output, findingsLimit) {
		seed := string(match[1])
		done.findings = append(done.findings, finding{What: clip(fmt.Sprintf("seed %s: %s", seed, match[2])), Seed: seed, Repeat: repeat(seed)})
	}
	if len(done.findings) == 0 {
		done.findings = []finding{{What: clip(why(o)), Seed: fmt.Sprintf("%d to %d", s.from, s.next-1)}}
	}
	// A test that ended by itself has played all of its seeds, and shrunk those that fail.
	if testEnded.Match(o.output) {
		done.counts = map[string]uint64{unit: s.count}
	}
	return done
}

var (
	ran = regexp.MustCompile(`(?m)^=== RUN `)
	// failedSeed is an error of a test that names its seed.
	failedSeed = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: seed (\d+)[:,] ?(.*)$`)
	testEnded  = regexp.MustCompile(`(?m)^--- FAIL: `)
	crashed    = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*$`)
	failure    = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: (.*)$`)
	// specFailure is what Ginkgo prints of a failure: in its timeline where it was, and then why.
	specFailure = regexp.MustCompile(`(?m)^ +\[(?:FAILED|TIMEDOUT|PANICKED)\] (?:Unexpected error:\n +<.*>: *\n +)?(.*)$`)
)

// why returns the sentence of a failed command that says most.
func why(o outcome) string {
	if found := crashed.Find(o.output); found != nil {
		return string(found)
	}
	if found := failure.FindSubmatch(o.output); found != nil {
		return string(found[1])
	}
	for _, found := range specFailure.FindAllSubmatch(o.output, -1) {
		if !bytes.HasPrefix(found[1], []byte("in [")) {
			return string(found[1])
		}
	}
	lines := strings.Split(strings.TrimSpace(string(o.output)), "\n")
	return cmp.Or(lines[len(lines)-1], o.err.Error())
}

// clip shortens a text to a line.
func clip(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(firstLine(text)), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + " …"
	}
	return text
}

// readGuided reads the output of the guided simulation.
func readGuided(s step, o outcome) reading {
	if o.ended {
		return reading{}
	}
	var done reading
	if found := guided.FindSubmatch(o.output); found != nil {
		n, _ := strconv.ParseUint(string(found[1]), 10, 64) // digits
		done.counts = map[string]uint64{"histories": n}
	} else {
		return reading{findings: []finding{{What: clip(why(o))}}}
	}
	for _, match := range failedHistory.FindAllSubmatch(o.output, findingsLimit) {
		seed := fmt.Sprintf("corpus/failed/%d-%s.json", s.from, match[1])
		done.findings = append(done.findings, finding{What: clip(fmt.Sprintf("history %s: %s", match[1], match[2])), Seed: seed})
	}
	for _, match := range metImpossible.FindAllSubmatch(o.output, findingsLimit) {
		done.findings = append(done.findings, finding{What: clip(string(match[1]))})
	}
	return done
}

var (
	guided        = regexp.MustCompile(`(?m): (\d+) histories in `)
	failedHistory = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: history (\d+): (.*)$`)
	metImpossible = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: (met although it cannot happen: .*)$`)
)

// readFuzzing reads the result of test/fuzzing, which has the targets that have ended.
func readFuzzing(_ step, o outcome) reading {
	var r struct {
		Targets []struct {
			Target, Result, Finding string
			Executions              uint64
		}
	}
	if err := json.Unmarshal(o.result, &r); err != nil {
		return failedWithout(o)
	}
	done := reading{counts: map[string]uint64{}}
	for _, t := range r.Targets {
		done.counts["executions"] += t.Executions
		if t.Result != "passed" {
			pkg, name, _ := strings.Cut(t.Target, ".")
			done.findings = append(done.findings, finding{
				What: clip(t.Target + ": " + t.Result + " " + t.Finding), Seed: t.Finding, Repeat: fmt.Sprintf("go test ./%s -run %s", pkg, name),
			})
		}
	}
	return done
}

// failedWithout is the reading of a command that left no result.
func failedWithout(o outcome) reading {
	if o.ended {
		return reading{}
	}
	return reading{findings: []finding{{What: clip(why(o))}}}
}

// readCrashes reads the report of test/crashes.
func readCrashes(s step, o outcome) reading {
	var r struct {
		Outcomes []struct {
			Cell       json.RawMessage
			Violations []string
		}
	}
	if err := json.Unmarshal(o.result, &r); err != nil {
		return failedWithout(o)
	}
	done := reading{counts: map[string]uint64{"crash cells": uint64(len(r.Outcomes))}}
	for _, cell := range r.Outcomes {
		for _, v := range cell.Violations {
			done.findings = append(done.findings, finding{
				What: clip(fmt.Sprintf("%s: %s", cell.Cell, v)), Seed: string(cell.Cell), Repeat: fmt.Sprintf("go test ./test/crashes -timeout 0 -args -cells '%s'", s.args[len(s.args)-1]),
			})
		}
	}
	return done
}

var (
	specs      = regexp.MustCompile(`(?m)^Ran (\d+) of \d+ Specs? in `)
	failedSpec = regexp.MustCompile(`(?m)^ *\[(?:FAIL|TIMEDOUT|PANICKED)\] (.*)$`)
)

// readSpecs reads the output of a Ginkgo suite.
func readSpecs(s step, o outcome) reading {
	total := specs.FindSubmatch(o.output)
	if o.ended || total == nil {
		return failedWithout(o)
	}
	n, _ := strconv.ParseUint(string(total[1]), 10, 64) // digits
	if n == 0 {
		return reading{findings: []finding{{What: "no spec ran"}}}
	}
	done := reading{counts: map[string]uint64{"fault specs": n}}
	for _, match := range failedSpec.FindAllSubmatch(o.output, findingsLimit) {
		done.findings = append(done.findings, finding{What: clip(string(match[1])), Repeat: "go test ./test/faults -timeout 0 -args " + strings.Join(s.args[len(s.args)-3:], " ")})
	}
	return done
}

// readHandovers reads the output of test/handover/soak with --handovers.
func readHandovers(s step, o outcome) reading {
	if o.ended {
		return reading{}
	}
	done := reading{counts: map[string]uint64{"handovers": uint64(len(handover.FindAll(o.output, -1)))}}
	if o.err != nil {
		done.findings = []finding{{What: clip(why(o)), Seed: text(s.from), Repeat: "go run ./test/handover/" + s.String()}}
	}
	return done
}

var handover = regexp.MustCompile(`(?m)  handover \d+ of \d+, `)

// readSoak reads the result of test/handover/soak with --churn.
func readSoak(_ step, o outcome) reading {
	var r struct {
		Created, Bound, Deleted, Refused, Swaps, Rejected uint64
		Seconds                                           float64
		Samples                                           []growth.Sample
		Findings                                          []string
		Error                                             string
	}
	if err := json.Unmarshal(o.result, &r); err != nil {
		return failedWithout(o)
	}
	done := reading{samples: r.Samples, counts: map[string]uint64{
		"pods": r.Created, "binds": r.Bound, "refusals": r.Refused, "swaps": r.Swaps, "rejected changes": r.Rejected,
	}}
	if r.Error != "" {
		r.Findings = append(r.Findings, r.Error)
	}
	for _, what := range r.Findings {
		done.findings = append(done.findings, finding{What: clip(what), Repeat: "go run ./test/handover/soak --churn=30m"})
	}
	return done
}

var (
	mutation = regexp.MustCompile(`(?m)^(\w+): .*$`)
	survived = regexp.MustCompile(`SURVIVED (.*)$`)
	hunted   = regexp.MustCompile(`(?m)^(\d+) mutations, (\d+) survived$`)
)

// readMutations reads the output of test/simulation/mutations.
func readMutations(_ step, o outcome) reading {
	if o.ended {
		return reading{}
	}
	total := hunted.FindSubmatch(o.output)
	if total == nil {
		return reading{findings: []finding{{What: clip(why(o))}}}
	}
	n, _ := strconv.ParseUint(string(total[1]), 10, 64) // digits
	done := reading{counts: map[string]uint64{"mutations": n}}
	name := ""
	for line := range strings.Lines(string(o.output)) {
		line = strings.TrimRight(line, "\n")
		if found := mutation.FindStringSubmatch(line); found != nil {
			name = found[1]
		}
		if found := survived.FindStringSubmatch(line); found != nil {
			done.findings = append(done.findings, finding{
				What: clip(name + " survived " + found[1]), Seed: name, Repeat: "go run ./test/simulation/mutations --only " + name,
			})
		}
	}
	return done
}

// formatCounts formats counts in one line, the largest first.
func formatCounts(counts map[string]uint64) string {
	var parts []string
	for what := range counts {
		parts = append(parts, what)
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, what := range parts {
		parts[i] = formatCount(counts[what]) + " " + what
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// formatCount writes a number with commas between thousands.
func formatCount(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
