package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// result is what became of one run of a test binary.
type result struct {
	red bool
	// why names the test that failed first, or what ended the run.
	why string
	// cells are how many subtests failed, those that hold others left out.
	cells int
	// ran is how many tests of the top level began.
	ran    int
	output string
}

// run runs the tests that k names with one mutation; "": none.
func (l *lab) run(ctx context.Context, k killer, mutation string) result {
	if k.pkg != simulation {
		return l.runTests(ctx, k, mutation)
	}
	return l.runTests(ctx, k, mutation, "-seeds", simSeeds, "-gangseeds", gangSimSeeds, "-replicaseeds", replicaSimSeeds, "-gangreplicaseeds", gangReplicaSimSeeds,
		"-volumeseeds", furtherSimSeeds, "-deviceseeds", furtherSimSeeds, "-explanationseeds", furtherSimSeeds,
		"-controllerseeds", controllerSimSeeds, "-stop")
}

// runTests is run with further arguments of the test binary.
func (l *lab) runTests(ctx context.Context, k killer, mutation string, further ...string) result {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	args := append([]string{"-test.v", "-test.run", "^(" + k.test + ")$", "-test.timeout", (deadline - deadline/10).String()}, further...)
	command := exec.CommandContext(ctx, l.binary(k.pkg), args...)
	command.Dir = filepath.Join(l.root, k.pkg)
	command.Env = environment(l.overlay, mutation)
	output, err := command.CombinedOutput()
	return read(string(output), err)
}

var (
	begun    = regexp.MustCompile(`(?m)^=== RUN +[^/\s]+$`)
	failed   = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	seed     = regexp.MustCompile(`(?m)^ +\S+_test\.go:\d+: (seed \d+: .*)$`)
	timedOut = regexp.MustCompile(`panic: test timed out after \S+\n\s+running tests:\n\s+(\S+)`)
	crashed  = regexp.MustCompile(`(?m)^(?:panic|fatal error): (.*)$`)
	running  = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +(\S+)$`)
)

// read makes a result of what a test binary printed and how it ended.
func read(output string, err error) result {
	r := result{red: err != nil, ran: len(begun.FindAllString(output, -1)), output: output}
	r.cells = len(leaves(failed.FindAllStringSubmatch(output, -1)))
	switch {
	case err == nil:
	case timedOut.MatchString(output):
		r.why = timedOut.FindStringSubmatch(output)[1] + ", which does not end"
	case seed.MatchString(output):
		r.why = clip(seed.FindStringSubmatch(output)[1])
	case failed.MatchString(output):
		r.why = deepest(failed.FindAllStringSubmatch(output, -1))
	case crashed.MatchString(output):
		tests := running.FindAllStringSubmatch(output, -1)
		if len(tests) > 0 {
			r.why = tests[len(tests)-1][1] + ", "
		}
		r.why += "which crashes: " + clip(crashed.FindStringSubmatch(output)[1])
	default:
		r.why = err.Error()
	}
	return r
}

// deepest follows the first failed test down to the subtest that failed first.
func deepest(tests [][]string) string {
	name := tests[0][1]
	for _, test := range tests[1:] {
		if strings.HasPrefix(test[1], name+"/") {
			name = test[1]
		}
	}
	return name
}

// leaves are the failed subtests that hold no other that failed.
func leaves(tests [][]string) []string {
	var found []string
	for _, test := range tests {
		holds := slices.ContainsFunc(tests, func(other []string) bool { return strings.HasPrefix(other[1], test[1]+"/") })
		if strings.Contains(test[1], "/") && !holds {
			found = append(found, test[1])
		}
	}
	return found
}

func clip(line string) string {
	const most = 120
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + " ..."
	}
	return line
}
