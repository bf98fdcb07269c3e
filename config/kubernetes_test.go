package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pinned matches the Kubernetes that a module of tools builds.
var pinned = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\S+)`)

// tested returns the version of each API server that tests run against, by its
// minor version: the newest, and those of tools/older.
func tested(t *testing.T) (versions map[string]string, older []string) {
	t.Helper()
	modules, err := filepath.Glob("../tools/older/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	versions = map[string]string{}
	for _, module := range append(modules, "../tools/controlplane/go.mod") {
		version := pinned.FindStringSubmatch(read(t, module))
		if version == nil {
			t.Fatalf("%s pins no k8s.io/kubernetes", module)
		}
		minor := strings.Join(strings.Split(strings.TrimPrefix(version[1], "v"), ".")[:2], ".")
		versions[minor] = version[1]
		if folder := filepath.Base(filepath.Dir(module)); slices.Contains(modules, module) {
			if folder != minor {
				t.Errorf("%s pins %s", module, version[1])
			}
			older = append(older, minor)
		}
	}
	slices.Sort(older)
	return versions, older
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheOldestKubernetesIsTheOldestThatIsTested(t *testing.T) {
	_, older := tested(t)
	if len(older) == 0 {
		t.Fatal("tools/older has no module")
	}
	if want := older[0] + ".0"; MinKubeVersion != want {
		t.Errorf("MinKubeVersion is %s, and the oldest API server that is tested is of %s", MinKubeVersion, want)
	}
	if line := "OLDER ?= " + strings.Join(older, " ") + "\n"; !strings.Contains(read(t, "../Makefile"), line) {
		t.Errorf("the Makefile has no line %q: `make older` leaves one out", line)
	}
}

func TestTheVersionsThatAreTestedAreDocumented(t *testing.T) {
	const page = "../docs/kubernetes-versions.md"
	text := read(t, page)
	versions, _ := tested(t)
	for minor, version := range versions {
		if row := fmt.Sprintf("| %s | %s |", minor, version); !strings.Contains(text, row) {
			t.Errorf("%s has no row that begins with %q", page, row)
		}
	}
	if !strings.Contains(text, "`minKubeVersion` is "+MinKubeVersion) {
		t.Errorf("%s does not say that `minKubeVersion` is %s", page, MinKubeVersion)
	}
}
