package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fromRoot reads a file of the module's root.
func fromRoot(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The linker passes over a variable that is not there: such a release would call
// itself "dev".
func TestVariablesThatAReleaseSetsAreThere(t *testing.T) {
	set := regexp.MustCompile(`-X ` + modulePath + `/([\w./-]+)\.(\w+)=`)
	for _, file := range []string{"Dockerfile", ".goreleaser.yaml"} {
		found := set.FindAllStringSubmatch(fromRoot(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s sets no variable", file)
		}
		for _, f := range found {
			if !hasString(t, filepath.Join("..", "..", f[1]), f[2]) {
				t.Errorf("%s sets %s.%s, which is no string of that package", file, f[1], f[2])
			}
		}
	}
}

// hasString says whether the package in dir declares a variable of that name with a
// string for its value.
func hasString(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && spec.Names[0].Name == name && len(spec.Values) == 1 {
				text, ok := spec.Values[0].(*ast.BasicLit)
				found = found || ok && text.Kind == token.STRING
			}
			_, inFunction := n.(*ast.FuncDecl)
			return !inFunction
		})
	}
	return found
}

func TestTheImageIsBuiltOfAllThatTheManagerIsMadeOf(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	command.Dir = filepath.Join("..", "..")
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	kept := fromRoot(t, ".dockerignore")
	for _, path := range strings.Fields(string(out)) {
		room, ok := strings.CutPrefix(path, modulePath+"/")
		whole, _, _ := strings.Cut(room, "/")
		if ok && !strings.Contains(kept, "\n!"+whole+"\n") && !strings.Contains(kept, "\n!"+room+"/*.go\n") {
			t.Errorf(".dockerignore leaves out %s, which the manager imports", path)
		}
	}
}

func TestWorkflowsUseActionsByTheirCommit(t *testing.T) {
	uses, pinned := regexp.MustCompile(`(?m)uses:\s*(\S+)`), regexp.MustCompile(`@[0-9a-f]{40}$`)
	for _, file := range []string{".github/workflows/ci.yml", ".github/workflows/release.yml"} {
		for _, action := range uses.FindAllStringSubmatch(fromRoot(t, file), -1) {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s: %s may become another one: name it by its commit", file, action[1])
			}
		}
	}
}
