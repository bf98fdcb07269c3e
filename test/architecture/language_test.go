package architecture

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const modulePath = "github.com/berthdev/berth"

// policy is a parsed text: one rule a line, # begins a comment.
//
//	FOLDER: FOLDER…              which packages of the module the code of a folder may import
//	FOLDER… never PACKAGE…       what the code in these folders must not import
//	FOLDER… nowhere PACKAGE…     what their tests must not import, either
//
// A folder is relative to the module, "." its root; a package is an import path. In both,
// "x/*" is each folder right below x, "x/..." is x and all below it, and "..." is all. Only
// direct imports count.
type policy struct {
	allow []allowRule
	never []neverRule
}

type allowRule struct {
	folder  string
	allowed []string
}

type neverRule struct {
	folders, never []string
	tests          bool // applies to tests, too
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
			p.never = append(p.never, neverRule{folders: words[:n], never: words[n+1:], tests: words[n] == "nowhere"})
		} else if folder, ok := strings.CutSuffix(words[0], ":"); ok && folder != "" && n < 0 {
			p.allow = append(p.allow, allowRule{folder: folder, allowed: words[1:]})
		} else {
			return policy{}, fmt.Errorf(`line %d: %q must be "FOLDER: FOLDER…", "FOLDER… never PACKAGE…" or "FOLDER… nowhere PACKAGE…"`, i+1, line)
		}
	}
	return p, nil
}

// matches says whether pattern matches name.
func matches(pattern, name string) bool {
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

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// pkg has the imports of a package.
type pkg struct {
	folder      string
	imports     []string // of its code
	testImports []string // of its tests
}

// check returns a message for each violation.
func (p policy) check(packages []pkg) []string {
	var violations []string
	for _, pkg := range packages {
		i := slices.IndexFunc(p.allow, func(r allowRule) bool { return matches(r.folder, pkg.folder) })
		if i < 0 && len(pkg.imports) > 0 {
			violations = append(violations, fmt.Sprintf("%s: the policy has no rule for this folder: add what it may import", pkg.folder))
			continue
		}
		for _, imported := range pkg.imports {
			if folder, ours := folderOf(imported); ours && !matchesAny(p.allow[i].allowed, folder) {
				violations = append(violations, fmt.Sprintf("%s imports %s, which its rule does not allow", pkg.folder, folder))
			}
		}
		for _, rule := range p.never {
			if !matchesAny(rule.folders, pkg.folder) {
				continue
			}
			imports := pkg.imports
			if rule.tests {
				imports = slices.Concat(pkg.imports, pkg.testImports)
			}
			for _, imported := range imports {
				if matchesAny(rule.never, imported) {
					violations = append(violations, fmt.Sprintf("%s imports %s, which is forbidden", pkg.folder, imported))
				}
			}
		}
	}
	return violations
}

// folderOf returns the folder of an import path of this module.
func folderOf(importPath string) (string, bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func TestThePolicyFindsEachViolation(t *testing.T) {
	const text = `
		low:          # imports none
		high:         low
		plugins/*:    low
		all:          high plugins/...
		low never net/...
		... nowhere k8s.io/kubernetes/...`
	ours := func(folder string) string { return modulePath + "/" + folder }
	cases := map[string]struct {
		pkg  pkg
		want []string
	}{
		"a package may import what its rule allows, and libraries": {
			pkg: pkg{folder: "high", imports: []string{ours("low"), "net/http", "k8s.io/api/core/v1"}},
		},
		"a package must not import the other way": {
			pkg:  pkg{folder: "low", imports: []string{ours("high")}},
			want: []string{"low imports high, which its rule does not allow"},
		},
		"plugins do not import each other": {
			pkg:  pkg{folder: "plugins/a", imports: []string{ours("low"), ours("plugins/b")}},
			want: []string{"plugins/a imports plugins/b, which its rule does not allow"},
		},
		"dots allow a folder and all below it": {
			pkg: pkg{folder: "all", imports: []string{ours("plugins/b"), ours("plugins/b/c"), ours("plugins")}},
		},
		"never applies to a folder and all below it": {
			pkg:  pkg{folder: "low", imports: []string{"net/http/httptest", "network"}},
			want: []string{"low imports net/http/httptest, which is forbidden"},
		},
		"only nowhere applies to tests": {
			pkg:  pkg{folder: "low", testImports: []string{ours("high"), "net/http", "k8s.io/kubernetes/pkg/scheduler"}},
			want: []string{"low imports k8s.io/kubernetes/pkg/scheduler, which is forbidden"},
		},
		"a folder without a rule is a violation": {
			pkg:  pkg{folder: "util", imports: []string{"fmt"}},
			want: []string{"util: the policy has no rule for this folder: add what it may import"},
		},
	}
	policy, err := parsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, policy.check([]pkg{tc.pkg})); diff != "" {
				t.Errorf("violations (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTheErrorOfAnInvalidPolicyNamesTheLine(t *testing.T) {
	for _, text := range []string{"a b", "a never", "never b", ": a", "a: never b", "a nowhere"} {
		if _, err := parsePolicy("\n" + text); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: got %v, want an error about line 2", text, err)
		}
	}
}

// readModule reads the imports of every package of the module at root, for all systems and
// build tags. Nested modules are left out.
func readModule(root string) ([]pkg, error) {
	packages := map[string]*pkg{} // folder → package
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, file)
		}
		if filepath.Ext(file) != ".go" {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if packages[folder] == nil {
			packages[folder] = &pkg{folder: folder}
		}
		return packages[folder].read(file)
	})
	var all []pkg
	for _, p := range packages {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b pkg) int { return strings.Compare(a.folder, b.folder) })
	return all, err
}

func skip(root, dir string) error {
	if dir == root {
		return nil
	}
	if name := filepath.Base(dir); strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" {
		return fs.SkipDir
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func (p *pkg) read(file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	to := &p.imports
	if strings.HasSuffix(file, "_test.go") {
		to = &p.testImports
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !slices.Contains(*to, imported) {
			*to = append(*to, imported)
		}
	}
	return nil
}
