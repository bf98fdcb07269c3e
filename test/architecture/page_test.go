package architecture

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// runWith runs a script with a PATH that has these programs only, and returns what it printed and
// its exit code.
func runWith(t *testing.T, programs []string, script string, args ...string) (string, int) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		at, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", script), args...)
	cmd.Env = []string{"PATH=" + dir}
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// A machine without Node passes `make test`. The output must say in one line what was not run.
func TestWithoutNodeThePageIsNotSkippedSilently(t *testing.T) {
	programs := []string{"bash", "dirname"}
	out, code := runWith(t, programs, "tools/test-page.sh")
	want := "tools/test-page.sh: Node with npm was not found: neither the units of the page nor its browser specs were run\n"
	if out != want || code != 0 {
		t.Errorf("exit %d, printed %q, want exit 0 and %q", code, out, want)
	}
	if out, code := runWith(t, programs, "tools/test-page.sh", "all"); out != want || code != 1 {
		t.Errorf("all: exit %d, printed %q, want exit 1 and %q", code, out, want)
	}
}
