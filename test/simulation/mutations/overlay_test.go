package main

import (
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestEveryMutationHasAnEditAndARow(t *testing.T) {
	edits, err := readEdits(editFiles, "edits")
	if err != nil {
		t.Fatal(err)
	}
	var edited []string
	for _, e := range edits {
		edited = append(edited, e.mutations()...)
	}
	rows := names()
	slices.Sort(edited)
	slices.Sort(rows)
	if diff := cmp.Diff(rows, slices.Compact(edited)); diff != "" {
		t.Errorf("mutations of the table and of the edits (-table,+edits):\n%s", diff)
	}
}

// Every anchor must match once: apply says which does not.
func TestTheMutatedPackagesBuild(t *testing.T) {
	edits, err := readEdits(editFiles, "edits")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{dir: t.TempDir()}
	if l.root, err = moduleRoot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := l.goTool(t.Context(), append([]string{"build"}, packagesOfEdits(edits)...)...); err != nil {
		t.Error(err)
	}
}

func packagesOfEdits(edits []edit) (all []string) {
	for _, e := range edits {
		if pkg := "./" + path.Dir(e.file); !slices.Contains(all, pkg) {
			all = append(all, pkg)
		}
	}
	return all
}

func TestEdits(t *testing.T) {
	const source = "package p\n\nfunc f() {\n\ta()\n\tif x {\n\t\ta()\n\t}\n\tb()\n}\n"
	for sentence, c := range map[string]struct{ edits, want, err string }{
		"a line is added": {
			"# a comment\n@@ f.go\n if x {\n+c()\n\n", "package p\n\nfunc f() {\n\ta()\n\tif x {\nc()\n\t\ta()\n\t}\n\tb()\n}\n", ""},
		"a line is replaced, and another is wrapped": {
			"@@ f.go\n-if x {\n+if x && !mutation.M {\n\n@@ f.go\n+if !mutation.N {\n b()\n+}\n",
			"package p\n\nfunc f() {\n\ta()\nif x && !mutation.M {\n\t\ta()\n\t}\nif !mutation.N {\n\tb()\n}\n}\n", ""},
		"an anchor that is in no line":         {"@@ f.go\n-c()\n", "", "edits/p.txt:1: the anchor is 0 times in p/f.go"},
		"an anchor that is in two places":      {"@@ f.go\n-a()\n", "", "edits/p.txt:1: the anchor is 2 times in p/f.go"},
		"no anchor":                            {"@@ f.go\n+a()\n", "", "edits/p.txt:1: the edit has no anchor"},
		"two edits of one line":                {"@@ f.go\n-b()\n@@ f.go\n-b()\n", "", "edits/p.txt:3: another edit removes"},
		"two edits that add in one place":      {"@@ f.go\n b()\n+c()\n@@ f.go\n b()\n+d()\n", "", "edits/p.txt:4: another edit adds"},
		"a line that is none of an edit":       {"@@ f.go\nb()\n", "", `edits/p.txt:2: "b()" begins with none of`},
		"a line that belongs to no edit":       {"+b()\n", "", "edits/p.txt:1: a line before the first @@"},
		"a blank line in the middle of a file": {"@@ f.go\n package p\n\n-func f() {\n+func g() {\n", strings.Replace(source, "func f", "func g", 1), ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			edits, err := readEdits(fstest.MapFS{"edits/p.txt": {Data: []byte(c.edits)}}, "edits")
			got := ""
			if err == nil {
				got, err = apply(source, edits)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestTheSwitch(t *testing.T) {
	program := strings.Replace(string(switchSource([]string{"A", "B"})), "package mutation", "package main", 1) +
		"func main() { println(A, B) }\n"
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	for mutation, want := range map[string]string{"": "false false", "B": "false true", "C": "panic: " + unknownMutation + "C"} {
		cmd := exec.CommandContext(t.Context(), "go", "run", file)
		cmd.Env = append(os.Environ(), variable+"="+mutation)
		output, _ := cmd.CombinedOutput()
		if got, _, _ := strings.Cut(string(output), "\n"); got != want {
			t.Errorf("%s=%s prints %q, want %q", variable, mutation, got, want)
		}
	}
}

// A shell script stands for the test binary.
func TestWhatKills(t *testing.T) {
	m := mutant{"M", "something", []killer{{queue, "TestX"}}, noOrder}
	for sentence, c := range map[string]struct {
		script string
		killed bool
		err    string
	}{
		"a test that fails":       {"echo '=== RUN   TestX'; echo '--- FAIL: TestX (0.00s)'; exit 1", true, ""},
		"a test that crashes":     {"echo '=== RUN   TestX'; echo 'panic: oh'; exit 2", true, ""},
		"a test that passes":      {"echo '=== RUN   TestX'; echo '--- PASS: TestX (0.00s)'", false, ""},
		"no test":                 {"echo 'testing: warning: no tests to run'", false, "scheduler/queue: nothing ran"},
		"a crash before any test": {"echo 'panic: oh'; exit 2", false, "scheduler/queue: nothing ran"},
		"an unknown mutation":     {"echo '=== RUN   TestX'; echo 'panic: " + unknownMutation + "M'; exit 2", false, "scheduler/queue: nothing ran"},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := &lab{dir: t.TempDir(), out: io.Discard}
			var err error
			if l.root, err = moduleRoot(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(l.binary(queue), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			killed, err := l.plant(t.Context(), m)
			if killed != c.killed || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("killed %v, error %v, want %v, %q", killed, err, c.killed, c.err)
			}
		})
	}
}
