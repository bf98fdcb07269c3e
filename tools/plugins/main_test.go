package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../.."

func TestThePagesAreUpToDate(t *testing.T) {
	pages, err := generatePages(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range pages {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale, run `make generate` (-want +got):\n%s", path, diff)
		}
	}
}

// The use of an argument and an example of a profile are written by hand.
func TestEachArgumentIsDocumented(t *testing.T) {
	all, err := readPlugins(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		page, err := os.ReadFile(filepath.Join(root, folder, p.name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		_, manual, _ := strings.Cut(string(page), endMark)
		for _, field := range p.fields {
			if !strings.Contains(manual, "| `"+field) {
				t.Errorf("%s.md: no row of a table describes `%s`", p.name, field)
			}
		}
		if !strings.Contains(manual, "kind: SchedulingProfile") {
			t.Errorf("%s.md: has no example of a profile", p.name)
		}
	}
}

func TestAPluginWithoutAPageIsAnError(t *testing.T) {
	if _, err := generatePages(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	if err := replaceGenerated(map[string]string{}, filepath.Join(t.TempDir(), "New.md"), ""); err == nil || !strings.Contains(err.Error(), "each built-in plugin has a page") {
		t.Errorf("got %v", err)
	}
	page := filepath.Join(t.TempDir(), "Old.md")
	if err := os.WriteFile(page, []byte("# Old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replaceGenerated(map[string]string{}, page, ""); err == nil || !strings.Contains(err.Error(), "no lines") {
		t.Errorf("got %v", err)
	}
}
