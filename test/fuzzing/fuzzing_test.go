package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var whole = flag.Bool("whole", false, "compile and run targets as well")

// root is the folder of the module.
const root = "../.."

// write writes a file below a folder.
func write(t *testing.T, folder, name, text string) {
	t.Helper()
	path := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTargetsAreFoundInTestFiles(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "a/a_test.go", "package a\nfunc FuzzB(f *testing.F) {}\nfunc FuzzA(f *testing.F) {}\nfunc FuzzyNumber(n int) {}\nfunc Fuzz() {}\ntype T struct{}\nfunc (T) FuzzMethod(f *testing.F) {}")
	write(t, folder, "a/b/b_test.go", "package b_test\nfunc FuzzC(f *testing.F) {}")
	write(t, folder, "a/code.go", "package a\nfunc FuzzNoTest(f *testing.F) {}")
	write(t, folder, "nested/go.mod", "module nested")
	write(t, folder, "nested/n_test.go", "package nested\nfunc FuzzN(f *testing.F) {}")
	write(t, folder, "testdata/x_test.go", "package x\nfunc FuzzX(f *testing.F) {}")
	write(t, folder, ".git/x_test.go", "package x\nfunc FuzzX(f *testing.F) {}")
	all, err := findTargets(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range all {
		got = append(got, target.String())
	}
	if diff := cmp.Diff([]string{"a.FuzzA", "a.FuzzB", "a/b.FuzzC", "nested.FuzzN"}, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestTheTargetsOfTheRepositoryAreFound(t *testing.T) {
	all, err := findTargets(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []target{{"scheduler/cycle", "FuzzClassKeys"}, {"scheduler/eventhandlers", "FuzzDecodeOfTrimmed"}, {"scheduler/compile", "FuzzProfile"}} {
		if !slices.Contains(all, want) {
			t.Errorf("%v is not found", want)
		}
	}
}

func TestTheOutputOfATarget(t *testing.T) {
	for name, c := range map[string]struct {
		output, printed string
		want            progress
	}{
		"one that passes": {
			output: "fuzz: elapsed: 0s, gathering baseline coverage: 0/41 completed\nfuzz: elapsed: 1s, gathering baseline coverage: 41/41 completed, now fuzzing with 1 workers\n" +
				"fuzz: elapsed: 3s, execs: 325017 (108336/sec), new interesting: 11 (total: 202)\nfuzz: elapsed: 6s, execs: 680218 (118402/sec), new interesting: 12 (total: 203)\nPASS\nok  \tx\t6.1s\n",
			want: progress{executions: 680218, fresh: 12, corpus: 203},
		},
		"one that finds something": {
			output: "fuzz: elapsed: 3s, execs: 7 (2/sec), new interesting: 1 (total: 2)\nfuzz: minimizing 30-byte failing input file\n--- FAIL: FuzzX (3.02s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:7: wrong\n" +
				"    \n    Failing input written to testdata/fuzz/FuzzX/1a2b\n    To re-run:\n    go test -run=FuzzX/1a2b\nFAIL\nexit status 1\nFAIL\tx\t3.1s\n",
			printed: "--- FAIL: FuzzX (3.02s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:7: wrong\n    \n    Failing input written to testdata/fuzz/FuzzX/1a2b\n    To re-run:\n    go test -run=FuzzX/1a2b\nFAIL\nexit status 1\nFAIL\tx\t3.1s\n",
			want:    progress{executions: 7, fresh: 1, corpus: 2, failed: true, finding: "testdata/fuzz/FuzzX/1a2b"},
		},
		"one that does not compile": {
			output: "# x\nx.go:1: syntax error\nFAIL\tx [build failed]\n", printed: "# x\nx.go:1: syntax error\nFAIL\tx [build failed]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var printed strings.Builder
			got := readProgress(strings.NewReader(c.output), &printed)
			if diff := cmp.Diff([]any{c.want, c.printed}, []any{got, printed.String()}, cmp.AllowUnexported(progress{})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// fakeModule returns a module with a target that passes and one that fails at its seed.
func fakeModule(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	write(t, folder, "go.mod", "module example.com/fuzzed\n\ngo 1.26\n")
	write(t, folder, "good/good_test.go", "package good\n\nimport \"testing\"\n\nfunc FuzzGood(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, n int) {})\n}\n")
	write(t, folder, "bad/bad_test.go", "package bad\n\nimport \"testing\"\n\nfunc FuzzBad(f *testing.F) {\n\tf.Add(7)\n\tf.Fuzz(func(t *testing.T, n int) {\n\t\tif n == 7 {\n\t\t\tt.Fatal(\"seven\")\n\t\t}\n\t})\n}\n")
	write(t, folder, "broken/broken_test.go", "package broken\n\nimport \"testing\"\n\nfunc FuzzBroken(f *testing.F) {\n\tundefined()\n}\n")
	return folder
}

func TestARunIsResumed(t *testing.T) {
	if !*whole {
		t.Skip("without -whole: it compiles three targets, which takes 20 s of a processor")
	}
	folder := fakeModule(t)
	t.Setenv("GOWORK", "off")
	file := filepath.Join(folder, "results.json")
	run := func(args ...string) (bool, string) {
		o, err := parseOptions(append(args, "--time=1s", "--json="+file), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		passed, err := o.run(t.Context(), folder, &out)
		if err != nil {
			t.Fatal(err)
		}
		return passed, out.String()
	}
	if passed, out := run("--only=Good"); !passed || !strings.Contains(out, "1/1 good.FuzzGood\n") {
		t.Errorf("passed: %t\n%s", passed, out)
	}
	passed, out := run("--resume")
	for _, part := range []string{"bad.FuzzBad\n", "seven", "undefined: undefined", "good.FuzzGood: passed before\n", "3 targets"} {
		if !strings.Contains(out, part) {
			t.Errorf("the output has no %q:\n%s", part, out)
		}
	}
	r, err := readReport(file)
	if err != nil || passed {
		t.Fatalf("passed: %t (%v)", passed, err)
	}
	got := map[string]string{}
	for _, one := range r.Targets {
		got[one.Target] = one.Result
	}
	want := map[string]string{"good.FuzzGood": resultPassed, "bad.FuzzBad": resultFound, "broken.FuzzBroken": resultBroken}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestTargetsAreChosenByTheirPlace(t *testing.T) {
	all := []target{{"a", "FuzzA"}, {"a", "FuzzB"}, {"b", "FuzzC"}}
	for sentence, c := range map[string]struct {
		from, count uint64
		want        []target
	}{
		"all without a count":         {1, 0, all},
		"some":                        {1, 1, all[1:2]},
		"over the end":                {2, 2, []target{all[2], all[0]}},
		"a place after the end":       {7, 1, all[1:2]},
		"each once, if there are few": {1, 9, []target{all[1], all[2], all[0]}},
	} {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rotate(all, c.from, c.count), cmp.AllowUnexported(target{})); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--only: ":                            {"--only=("},
		"--time: must be at least 1s, is 1ms": {"--time=1ms"},
		"--parallel: must be at least 1":      {"--parallel=0"},
		"--resume: requires --json":           {"--resume"},
		`unexpected argument "x"`:             {"x"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}
