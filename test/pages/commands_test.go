package pages

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A command is played, run, dry-run, or in the table of those that are not, with
// the reason. test/integration does what can be done.
func TestEveryCommandIsRunOrHasARule(t *testing.T) {
	fits := map[string]bool{}
	for _, page := range allPages(t) {
		for _, c := range page.Commands() {
			other, is := RuleFor(c)
			fits[other.Prefix] = true
			if c.Shown && !is && !slices.Contains(VerifiedPages, page.Path) {
				t.Errorf("%s:%d: nobody plays %q: write it in a block sh, or the page into Played, or a row into Others", page.Path, c.Line, c.Text)
			}
			if !c.Shown && !is && !strings.HasPrefix(c.Text, "kubectl ") {
				t.Errorf("%s:%d: %q is no kubectl, and no row of Others says what becomes of it", page.Path, c.Line, c.Text)
			}
		}
	}
	for _, o := range CommandRules {
		if !fits[o.Prefix] {
			t.Errorf("no page has a command that begins with %q any more", o.Prefix)
		}
		if o.Reason == "" {
			t.Errorf("%q: why not?", o.Prefix)
		}
	}
}

func TestMakeTargetsAndSourcesOfPagesExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range allPages(t) {
		for _, c := range page.Commands() {
			words := strings.Fields(strings.TrimPrefix(c.Text, "CGO_ENABLED=0 "))
			switch words[0] {
			case "make":
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[1]) + `:`).Match(makefile) {
					t.Errorf("%s:%d: the Makefile has no target %s", page.Path, c.Line, words[1])
				}
			case "go":
				if words[1] != "run" {
					continue
				}
				if _, err := os.Stat(filepath.Join(root, words[2])); err != nil {
					t.Errorf("%s:%d: %v", page.Path, c.Line, err)
				}
			}
		}
	}
}

func TestCommandsOfAPage(t *testing.T) {
	page := parsePage("a.md", "# A\n\n```sh\nkubectl get a  # why\nkubectl get b \\\n  -A\n```\n\n```console\n$ cat <<EOF\n> x\n> EOF\nx\n```\n\n```\n$ kubectl get c\nNAME\n```\n")
	want := []Command{
		{Line: 4, Text: "kubectl get a"}, {Line: 5, Text: "kubectl get b -A"},
		{Line: 10, Text: "cat <<EOF\nx\nEOF", Shown: true}, {Line: 17, Text: "kubectl get c", Shown: true},
	}
	if diff := cmp.Diff(want, page.Commands()); diff != "" {
		t.Errorf("(-want,+got)\n%s", diff)
	}
}
