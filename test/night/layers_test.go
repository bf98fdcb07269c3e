package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func layerNamed(t *testing.T, name string) layer {
	t.Helper()
	i := slices.IndexFunc(table, func(l layer) bool { return l.name == name })
	if i < 0 {
		t.Fatalf("there is no layer %s", name)
	}
	return table[i]
}

func TestEveryLayerIsComplete(t *testing.T) {
	names := map[string]bool{}
	for _, l := range table {
		if names[l.name] || l.name == "" || l.unit == "" || l.share <= 0 || l.turn <= 0 || l.least <= 0 || l.program.pkg == "" || l.step == nil || l.read == nil {
			t.Errorf("%+v lacks something, or its name is that of another", l)
		}
		names[l.name] = true
		if s, ok := l.step(position{next: l.first}, 2*time.Hour); !ok || s.next <= s.from || s.limit <= 0 {
			t.Errorf("%s: the first step of two hours is %+v, %t", l.name, s, ok)
		}
		if s, ok := l.step(position{next: l.first}, 0); ok {
			t.Errorf("%s: has a step without time: %+v", l.name, s)
		}
	}
}

// A step takes half a minute: as many seeds as were played in that time so far.
func TestAStepHasAsManySeedsAsFitIntoHalfAMinute(t *testing.T) {
	l := layerNamed(t, "simulation")
	for sentence, c := range map[string]struct {
		rate float64
		left time.Duration
		want uint64
		ok   bool
	}{
		"at first":              {0, time.Hour, 300, true},
		"a known rate":          {300, time.Hour, 9000, true},
		"less time":             {300, 10 * time.Second, 3000, true},
		"too little time":       {30, 2 * time.Second, 60, false},
		"no time":               {300, 0, 0, false},
		"one seed takes longer": {0.01, time.Hour, 1, true},
	} {
		t.Run(sentence, func(t *testing.T) {
			s, ok := l.step(position{next: 7, rate: c.rate}, c.left)
			if ok != c.ok || s.count != c.want || s.next != 7+c.want {
				t.Errorf("%d seeds up to %d, %t; want %d, %t", s.count, s.next, ok, c.want, c.ok)
			}
		})
	}
	s, _ := l.step(position{next: 7, rate: 100}, time.Hour)
	want := "-test.v -test.run ^TestEveryHistoryKeepsTheInvariants$ -test.timeout 19m0s -first 7 -seeds 3000"
	if got := strings.Join(s.args, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The seed of the oracle is that of a history of a hundred attempts.
func TestDecisionsAdvanceByHistories(t *testing.T) {
	s, ok := layerNamed(t, "oracle").step(position{next: 51, rate: 1000}, time.Hour)
	if !ok || s.count != 30000 || s.from != 51 || s.next != 351 {
		t.Errorf("%+v, %t: want 30000 decisions of 300 histories", s, ok)
	}
}

func TestWhatATestPrintsIsRead(t *testing.T) {
	exit := errors.New("exit status 1")
	l := layerNamed(t, "simulation of many gangs")
	s, _ := l.step(position{next: 11, rate: 1}, time.Hour)
	seeds := map[string]uint64{"seeds": 30}
	repeat := "go test ./test/simulation -run '^TestEveryHistoryOfManyGangsKeepsTheInvariants$' -args -first 17 -manygangseeds 1 -manygangs 1000"
	for sentence, c := range map[string]struct {
		o    outcome
		want reading
	}{
		"success": {outcome{output: []byte("=== RUN   TestEvery\nPASS\n")}, reading{counts: seeds}},
		"no test": {outcome{output: []byte("testing: warning: no tests to run\nPASS\n")}, reading{findings: []finding{{What: "no test ran"}}}},
		"a seed that fails": {
			outcome{err: exit, output: []byte("=== RUN   TestEvery\n    simulation_test.go:70: seed 17: a pod is lost\n        12 of 30 actions are left\n--- FAIL: TestEvery (1.2s)\n")},
			reading{counts: seeds, findings: []finding{{What: "seed 17: a pod is lost", Seed: "17", Repeat: repeat}}},
		},
		"a crash has played nothing for certain": {
			outcome{err: exit, output: []byte("=== RUN   TestEvery\npanic: test timed out after 19m0s\n\ngoroutine 1 [running]:\n")},
			reading{findings: []finding{{What: "panic: test timed out after 19m0s", Seed: "11 to 40"}}},
		},
		"a failure without a seed": {
			outcome{err: exit, output: []byte("=== RUN   TestEvery\n    simulation_test.go:121: 2000 seeds: 0 times: a swap; want once in a thousand seeds\n--- FAIL: TestEvery (1.2s)\n")},
			reading{counts: seeds, findings: []finding{{What: "2000 seeds: 0 times: a swap; want once in a thousand seeds", Seed: "11 to 40"}}},
		},
		"one that was asked to end": {outcome{err: exit, ended: true}, reading{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, l.read(s, c.o), cmp.AllowUnexported(reading{})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTheFailureOfASuiteSaysWhy(t *testing.T) {
	const timeline = "  [FAILED] in [It] - a_test.go:79 @ 11/27/26 23:14:51.117\n  << Timeline\n\n"
	for sentence, c := range map[string]struct{ output, want string }{
		"an error":       {timeline + "  [FAILED] Unexpected error:\n      <*errors.joinError | 0x1fc4>: \n      a write is not reached\n      {\n  occurred\nFAIL\n", "a write is not reached"},
		"an expectation": {timeline + "  [FAILED] cells that could not be run\n  Expected\n      <int>: 3\nFAIL\n", "cells that could not be run"},
	} {
		t.Run(sentence, func(t *testing.T) {
			if got := why(outcome{output: []byte(c.output)}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTheResultOfASoakIsRead(t *testing.T) {
	l := layerNamed(t, "soak")
	done := l.read(step{}, outcome{err: errors.New("exit status 1"), result: []byte(
		`{"created":100,"bound":90,"refused":1,"swaps":3,"rejected":1,"samples":[{"seconds":10,"heapMiB":40}],"findings":["goroutines: grows"],"error":"a pod is pending"}`)})
	want := map[string]uint64{"pods": 100, "binds": 90, "refusals": 1, "swaps": 3, "rejected changes": 1}
	if diff := cmp.Diff(want, done.counts); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if len(done.findings) != 2 || len(done.samples) != 1 || done.samples[0].Heap != 40 {
		t.Errorf("%+v, want two findings and a sample", done)
	}
	if done := l.read(step{}, outcome{err: errors.New("exit status 1"), output: []byte("soak: failed: etcd exited\n")}); len(done.findings) != 1 || done.findings[0].What != "soak: failed: etcd exited" {
		t.Errorf("%+v, want the last line", done)
	}
}

func TestWhatTheGuidedSimulationPrintsIsRead(t *testing.T) {
	l := layerNamed(t, "guided simulation")
	s, ok := l.step(position{next: l.first}, time.Minute)
	if want := "-guided 50s -first 1000000000 -corpus {corpus}"; !ok || !strings.HasSuffix(strings.Join(s.args, " "), want) {
		t.Errorf("%q, want it to end with %q", s.args, want)
	}
	const ended = "    guided_test.go:48: 512 histories in 50s, after 12 of the corpus; 90 features, 14 inputs kept\n"
	for sentence, c := range map[string]struct {
		o    outcome
		want reading
	}{
		"success": {outcome{output: []byte(ended)}, reading{counts: map[string]uint64{"histories": 512}}},
		"a failure": {
			outcome{err: errors.New("exit status 1"), output: []byte(ended + "    guided_test.go:120: history 77: a pod is lost\n")},
			reading{counts: map[string]uint64{"histories": 512}, findings: []finding{{What: "history 77: a pod is lost", Seed: "corpus/failed/1000000000-77.json"}}},
		},
		"a cell that cannot be met": {
			outcome{err: errors.New("exit status 1"), output: []byte("    guided_test.go:82: 96 histories, 0 failures\n" + ended + "    guided_test.go:49: met although it cannot happen: Held × kill (it is held), met in history 7\n")},
			reading{counts: map[string]uint64{"histories": 512}, findings: []finding{{What: "met although it cannot happen: Held × kill (it is held), met in history 7"}}},
		},
		"a crash": {outcome{err: errors.New("exit status 2"), output: []byte("panic: boom\n")}, reading{findings: []finding{{What: "panic: boom"}}}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, l.read(s, c.o), cmp.AllowUnexported(reading{})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestResultsOfOtherCommandsAreRead(t *testing.T) {
	exit := errors.New("exit status 1")
	for sentence, c := range map[string]struct {
		layer string
		o     outcome
		want  reading
	}{
		"fuzz targets": {
			"fuzzing", outcome{err: exit, result: []byte(`{"targets":[{"target":"scheduler/cycle.FuzzKeys","executions":70,"result":"passed"},{"target":"scheduler/compile.FuzzSpec","executions":5,"result":"failed","finding":"testdata/fuzz/FuzzSpec/1"}]}`)},
			reading{counts: map[string]uint64{"executions": 75}, findings: []finding{{
				What: "scheduler/compile.FuzzSpec: failed testdata/fuzz/FuzzSpec/1", Seed: "testdata/fuzz/FuzzSpec/1", Repeat: "go test ./scheduler/compile -run FuzzSpec",
			}}},
		},
		"crash cells": {
			"crashes", outcome{err: exit, result: []byte(`{"outcomes":[{"cell":"bind before"},{"cell":"bind after","violations":["a pod is lost"]}]}`)},
			reading{counts: map[string]uint64{"crash cells": 2}, findings: []finding{{
				What: `"bind after": a pod is lost`, Seed: `"bind after"`, Repeat: "go test ./test/crashes -timeout 0 -args -cells '" + crashScenarios[23] + ":'",
			}}},
		},
		"specs of a suite": {
			"faults", outcome{err: exit, output: []byte("  [FAIL] etcd that is killed [It] loses no pod\nRan 34 of 34 Specs in 1000.1 seconds\nFAIL! -- 33 Passed\n")},
			reading{counts: map[string]uint64{"fault specs": 34}, findings: []finding{{
				What: "etcd that is killed [It] loses no pod", Repeat: "go test ./test/faults -timeout 0 -args -all -ginkgo.focus-file " + faultFiles[23%len(faultFiles)],
			}}},
		},
		"a suite without specs":      {"faults", outcome{output: []byte("Ran 0 of 34 Specs in 1.1 seconds\nSUCCESS!\n")}, reading{findings: []finding{{What: "no spec ran"}}}},
		"a command without a result": {"crashes", outcome{err: exit, output: []byte("panic: boom\n")}, reading{findings: []finding{{What: "panic: boom"}}}},
		"one that was asked to end":  {"crashes", outcome{err: exit, ended: true}, reading{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := layerNamed(t, c.layer)
			s, _ := l.step(position{next: 23}, time.Hour)
			if diff := cmp.Diff(c.want, l.read(s, c.o), cmp.AllowUnexported(reading{})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// A file that is not in the list would never run.
func TestEveryFileOfFaultsHasAStep(t *testing.T) {
	files, err := filepath.Glob("../faults/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var want, steps []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`(?m)^var _ = Describe`).Match(text) {
			want = append(want, filepath.Base(file))
		}
	}
	for i := range len(want) {
		s := nextFaults(position{next: uint64(i)})
		steps = append(steps, s.args[len(s.args)-1])
	}
	slices.Sort(steps)
	if diff := cmp.Diff(want, steps); diff != "" || len(faultFiles) != len(want) {
		t.Errorf("%d files in the list; (-want,+got):\n%s", len(faultFiles), diff)
	}
}

func TestEveryScenarioOfCrashesHasAStep(t *testing.T) {
	source, err := os.ReadFile("../crashes/scenario.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(source), "// The names of the scenarios.\nconst (\n")
	block, _, _ = strings.Cut(block, "\n)")
	var want, steps []string
	for _, found := range regexp.MustCompile(`(?m) = "(.*)"$`).FindAllStringSubmatch(block, -1) {
		want = append(want, found[1]+":")
		s := nextCrashes(position{next: uint64(len(steps))})
		steps = append(steps, s.args[len(s.args)-1])
	}
	if diff := cmp.Diff(want, steps); diff != "" || len(want) == 0 || len(crashScenarios) != len(want) {
		t.Errorf("%d scenarios in the list; (-want,+got):\n%s", len(crashScenarios), diff)
	}
}

func TestWhatHandoversPrintIsRead(t *testing.T) {
	output := "soak:  20.1 s  handover 1 of 2, killed: no bind for 18.0 s\nsoak:  40.1 s  handover 2 of 2, frozen: no bind for 18.0 s\n"
	s := step{path: "bin/soak", args: []string{"--handovers=2", "--seed=7"}, from: 7}
	l := layerNamed(t, "handovers")
	if diff := cmp.Diff(reading{counts: map[string]uint64{"handovers": 2}}, l.read(s, outcome{output: []byte(output)}), cmp.AllowUnexported(reading{})); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	failed := l.read(s, outcome{err: errors.New("exit status 1"), output: []byte(output + "soak: failed: 1 violations\n")})
	want := []finding{{What: "soak: failed: 1 violations", Seed: "7", Repeat: "go run ./test/handover/soak --handovers=2 --seed=7"}}
	if diff := cmp.Diff(want, failed.findings); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestWhatMutationsPrintIsRead(t *testing.T) {
	output := "built the tests of scheduler (1s)\nNaiveSwap: a swap forgets pods\n  killed by scheduler TestA\nKeepsLock: a lock is kept\n  SURVIVED scheduler TestB\n2 mutations, 1 survived\n"
	done := layerNamed(t, "mutations").read(step{}, outcome{err: errors.New("exit status 1"), output: []byte(output)})
	want := reading{counts: map[string]uint64{"mutations": 2}, findings: []finding{{
		What: "KeepsLock survived scheduler TestB", Seed: "KeepsLock", Repeat: "go run ./test/simulation/mutations --only KeepsLock",
	}}}
	if diff := cmp.Diff(want, done, cmp.AllowUnexported(reading{})); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
