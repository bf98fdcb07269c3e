package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every command is verified as part of a session, run, run with --dry-run, or has a rule
// that says why not. test/integration runs the commands.
func TestEveryCommandIsRunOrHasARule(t *testing.T) {
	used := map[string]bool{}
	for _, page := range allPages(t) {
		for _, c := range page.Commands() {
			rule, is := RuleFor(c)
			used[rule.Prefix] = true
			if c.Shown && !is && !slices.Contains(VerifiedPages, page.Path) {
				t.Errorf("%s:%d: %q is not run: write it in a block sh, or add the page to VerifiedPages, or a rule to CommandRules", page.Path, c.Line, c.Text)
			}
			if !c.Shown && !is && !strings.HasPrefix(c.Text, "kubectl ") {
				t.Errorf("%s:%d: %q is not a kubectl command and has no rule in CommandRules", page.Path, c.Line, c.Text)
			}
		}
	}
	for _, o := range CommandRules {
		if !used[o.Prefix] {
			t.Errorf("no page has a command that begins with %q: remove the rule", o.Prefix)
		}
		if o.Reason == "" {
			t.Errorf("%q: the rule has no reason", o.Prefix)
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
				folder := words[2]
				if folder == "-C" {
					folder = words[3]
				}
				if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
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
