package kubectltest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

var update = flag.Bool("update", false, "write the golden files anew")

var nonWord = regexp.MustCompile(`[^a-z0-9]+`)

// Golden compares printed with testdata/<name>.golden, where name is in lower case with
// dashes. Lines must fit into show.Width, unless long.
func Golden(t *testing.T, name, printed string, long bool) {
	t.Helper()
	for line := range strings.Lines(printed) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > show.Width && !long {
			t.Errorf("a line has %d characters, more than %d: %s", n, show.Width, line)
		}
		if trimmed := strings.TrimRight(line, " \n"); trimmed+"\n" != line {
			t.Errorf("trailing spaces in %q", line)
		}
	}
	file := filepath.Join("testdata", strings.Trim(nonWord.ReplaceAllString(strings.ToLower(name), "-"), "-")+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(printed), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; -update writes it", err)
	}
	if diff := cmp.Diff(string(want), printed); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}
