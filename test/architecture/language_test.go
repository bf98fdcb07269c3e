package architecture

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "github.com/berthdev/berth"

// policy is a parsed text: one rule a line, # begins a comment.
//
//	ROOM: ROOM…                what code in the left room may import of the house
//	ROOM… never PACKAGE…       what code in these rooms may not import
//	ROOM… nowhere PACKAGE…     what not even their tests may import
//
// A room is a folder of the module, "." its root; a package is an import path.
// In both, "x/*" is each folder right below x, "x/..." is x and all below it,
// and "..." is all there is. Only direct imports count: what a room reaches
// through another is the other's affair.
type policy struct {
	may   []mayRule
	never []neverRule
}

type mayRule struct {
	room string
	may  []string
}

type neverRule struct {
	rooms, never []string
	tests        bool // holds for tests too
}

func parsePolicy(text string) (policy, error) {
	var p policy
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		n := slices.IndexFunc(words, func(w string) bool { return w == "never" || w == "nowhere" })
		if n > 0 && n < len(words)-1 && !strings.HasSuffix(words[n-1], ":") {
			p.never = append(p.never, neverRule{rooms: words[:n], never: words[n+1:], tests: words[n] == "nowhere"})
		} else if room, ok := strings.CutSuffix(words[0], ":"); ok && room != "" && n < 0 {
			p.may = append(p.may, mayRule{room: room, may: words[1:]})
		} else {
			return policy{}, fmt.Errorf(`line %d: %q is neither "ROOM: ROOM…" nor "ROOM… never PACKAGE…", nor that with nowhere`, i+1, line)
		}
	}
	return p, nil
}

// fits reports whether name is what pattern speaks of.
func fits(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(name) == base
	}
	return name == pattern
}

func fitsAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(p, name) })
}

// pkg is what the policy sees of a package.
type pkg struct {
	room        string
	imports     []string // of its code
	testImports []string // of its tests
}

// check returns one sentence for each breach.
func (p policy) check(packages []pkg) []string {
	var faults []string
	for _, pkg := range packages {
		i := slices.IndexFunc(p.may, func(r mayRule) bool { return fits(r.room, pkg.room) })
		if i < 0 && len(pkg.imports) > 0 {
			faults = append(faults, fmt.Sprintf("room %s has no line: say in the policy what it may import", pkg.room))
			continue
		}
		for _, imported := range pkg.imports {
			if room, ours := roomOf(imported); ours && !fitsAny(p.may[i].may, room) {
				faults = append(faults, fmt.Sprintf("%s imports %s, and the policy has no such door", pkg.room, room))
			}
		}
		for _, rule := range p.never {
			if !fitsAny(rule.rooms, pkg.room) {
				continue
			}
			imports := pkg.imports
			if rule.tests {
				imports = slices.Concat(pkg.imports, pkg.testImports)
			}
			for _, imported := range imports {
				if fitsAny(rule.never, imported) {
					faults = append(faults, fmt.Sprintf("%s imports %s, which it never may", pkg.room, imported))
				}
			}
		}
	}
	return faults
}

// roomOf returns the folder of an import path of this module.
func roomOf(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func TestThePolicyLanguageFindsEachBreach(t *testing.T) {
	const text = `
		low:          # knows nobody
		high:         low
		plugins/*:    low
		all:          high plugins/...
		low never net/...
		... nowhere k8s.io/kubernetes/...`
	ours := func(room string) string { return modulePath + "/" + room }
	cases := map[string]struct {
		pkg  pkg
		want []string
	}{
		"a room may import what its line says, and libraries": {
			pkg: pkg{room: "high", imports: []string{ours("low"), "net/http", "k8s.io/api/core/v1"}},
		},
		"a room may not import another way": {
			pkg:  pkg{room: "low", imports: []string{ours("high")}},
			want: []string{"low imports high, and the policy has no such door"},
		},
		"plugins do not import each other": {
			pkg:  pkg{room: "plugins/a", imports: []string{ours("low"), ours("plugins/b")}},
			want: []string{"plugins/a imports plugins/b, and the policy has no such door"},
		},
		"dots open a whole floor": {
			pkg: pkg{room: "all", imports: []string{ours("plugins/b"), ours("plugins/b/c"), ours("plugins")}},
		},
		"never holds for a folder and all below it": {
			pkg:  pkg{room: "low", imports: []string{"net/http/httptest", "network"}},
			want: []string{"low imports net/http/httptest, which it never may"},
		},
		"of all rules, nowhere alone holds for tests": {
			pkg:  pkg{room: "low", testImports: []string{ours("high"), "net/http", "k8s.io/kubernetes/pkg/scheduler"}},
			want: []string{"low imports k8s.io/kubernetes/pkg/scheduler, which it never may"},
		},
		"a room nobody thought of is a fault": {
			pkg:  pkg{room: "util", imports: []string{"fmt"}},
			want: []string{"room util has no line: say in the policy what it may import"},
		},
	}
	policy, err := parsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, policy.check([]pkg{tc.pkg})); diff != "" {
				t.Errorf("faults (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestAPolicyThatCannotBeReadSaysWhere(t *testing.T) {
	for _, text := range []string{"a b", "a never", "never b", ": a", "a: never b", "a nowhere"} {
		if _, err := parsePolicy("\n" + text); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: got %v, want an error about line 2", text, err)
		}
	}
}
