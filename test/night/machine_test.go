package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeFile writes a file of a repository, with a text that it did not have.
func writeFile(t *testing.T, root, name string) {
	t.Helper()
	path := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(t.Name()+name+time.Now().String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// commitFile writes a file and commits it, in a repository that it makes if there is none.
func commitFile(t *testing.T, root, name string) {
	t.Helper()
	writeFile(t, root, name)
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message=a"},
	} {
		if _, err := git(t.Context(), root, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// What a layer has found, and a part, are no changes of the sources, or no part after them would be of
// the commit.
func TestAPartKnowsWhetherSourcesWereChanged(t *testing.T) {
	for sentence, c := range map[string]struct {
		file string
		want bool
	}{
		"nothing new":                      {"", false},
		"a changed file":                   {"a.go", true},
		"a new file":                       {"scheduler/b.go", true},
		"an input that a target failed at": {"scheduler/testdata/fuzz/FuzzA/1", false},
		"a history of the oracle":          {"test/exactness/oracle/cases/1.json", false},
		"a part":                           {"docs/reliability/night/parts/1.json", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			root := t.TempDir()
			commitFile(t, root, "a.go")
			if c.file != "" {
				writeFile(t, root, c.file)
			}
			if p := newPart(t.Context(), root, time.Now()); p.Dirty != c.want || p.Commit == "unknown" {
				t.Errorf("changed: %t, at commit %s; want %t", p.Dirty, p.Commit, c.want)
			}
		})
	}
}

// Parts are committed between parts: those before and after are of one commit, and add up.
func TestThePartsOfOneSourceAreOfOneCommit(t *testing.T) {
	root := t.TempDir()
	commit := func(name string) (commit string) {
		commitFile(t, root, name)
		return newPart(t.Context(), root, time.Now()).Commit
	}
	first := commit("a.go")
	if later := commit("docs/reliability/night/parts/1.json"); later != first {
		t.Errorf("after a commit of a part the commit is %s, want %s", later, first)
	}
	if later := commit("b.go"); later == first {
		t.Error("after a commit of a source the commit is the same")
	}
}
