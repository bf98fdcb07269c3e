package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// mayStartGoroutines are the functions of scheduler/ that may start goroutines.
// All other code of scheduler/ calls an injected function, so that a simulation decides what
// runs when.
var mayStartGoroutines = []string{
	"framework/call_watch.go: Goroutine",
}

func TestTheSchedulerStartsGoroutinesThroughTheInjectedFunction(t *testing.T) {
	var found []string
	folder := filepath.Join(root, "scheduler")
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		for _, function := range goroutineStarts(file) {
			found = append(found, filepath.ToSlash(name)+": "+function)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found, mayStartGoroutines[0]) {
		t.Errorf("%s starts no goroutine: does this test read the right folder?", mayStartGoroutines[0])
	}
	for _, function := range found {
		if !slices.Contains(mayStartGoroutines, function) {
			t.Errorf("%s starts a goroutine, instead of calling the injected function", function)
		}
	}
}

func TestGoroutineStarts(t *testing.T) {
	for sentence, c := range map[string]struct {
		code string
		want []string
	}{
		"a go statement":                      {"func f() { go g() }", []string{"f"}},
		"a go statement in a closure":         {"func f() func() { return func() { go g() } }", []string{"f"}},
		"a go statement of a variable":        {"var start = func() { go g() }", []string{"start"}},
		"a method":                            {"func (t *T) f() { go g() }", []string{"T.f"}},
		"a WaitGroup that is a variable":      {"func f() { var w sync.WaitGroup; w.Go(g) }", []string{"f"}},
		"a WaitGroup that is a composite":     {"func f() { w := sync.WaitGroup{}; w.Go(g) }", []string{"f"}},
		"a WaitGroup that is a field":         {"type T struct { w sync.WaitGroup }\nfunc (t *T) f() { t.w.Go(g) }", []string{"T.f"}},
		"a WaitGroup that is a parameter":     {"func f(w *sync.WaitGroup) { w.Go(g) }", []string{"f"}},
		"a timer of the package time":         {"func f() { time.AfterFunc(0, g) }", []string{"f"}},
		"a function to call when ctx ends":    {"func f() { context.AfterFunc(nil, g) }", []string{"f"}},
		"two in one function are listed once": {"func f() { go g(); go g() }", []string{"f"}},
		"the injected function":               {"func (t *T) f() { t.options.Go(g) }", nil},
		"a timer of the injected clock":       {"func (t *T) f() { t.clock.AfterFunc(0, g) }", nil},
		"a WaitGroup that only counts":        {"func f() { var w sync.WaitGroup; w.Add(1); w.Done() }", nil},
	} {
		t.Run(sentence, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+c.code, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, goroutineStarts(file)); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// goroutineStarts returns the functions of file that start goroutines: with a go
// statement, with a sync.WaitGroup, or with the packages time and context.
func goroutineStarts(file *ast.File) (functions []string) {
	groups := waitGroups(file)
	for _, declared := range file.Decls {
		for name, node := range topLevel(declared) {
			starts := false
			ast.Inspect(node, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					starts = true
				case *ast.CallExpr:
					starts = starts || startsGoroutine(n, groups)
				}
				return true
			})
			if starts {
				functions = append(functions, name)
			}
		}
	}
	return functions
}

func startsGoroutine(call *ast.CallExpr, groups map[string]bool) bool {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of := lastName(called.X)
	switch called.Sel.Name {
	case "Go":
		return groups[of]
	case "AfterFunc":
		_, plain := called.X.(*ast.Ident)
		return plain && (of == "time" || of == "context")
	}
	return false
}

// topLevel returns declarations by name.
func topLevel(declared ast.Decl) map[string]ast.Node {
	all := map[string]ast.Node{}
	switch d := declared.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = lastName(d.Recv.List[0].Type) + "." + name
		}
		all[name] = d
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				all[values.Names[0].Name] = values
			}
		}
	}
	return all
}

// waitGroups returns the names of variables, parameters and fields of file that
// are a sync.WaitGroup.
func waitGroups(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				names[name.Name] = names[name.Name] || isWaitGroup(n.Type)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				names[name.Name] = names[name.Name] || isWaitGroup(n.Type)
			}
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if composite, ok := value.(*ast.CompositeLit); ok && isWaitGroup(composite.Type) {
					names[lastName(n.Lhs[i])] = true
				}
			}
		}
		return true
	})
	return names
}

func isWaitGroup(kind ast.Expr) bool {
	if pointer, ok := kind.(*ast.StarExpr); ok {
		kind = pointer.X
	}
	of, ok := kind.(*ast.SelectorExpr)
	return ok && fmt.Sprint(of.X) == "sync" && of.Sel.Name == "WaitGroup"
}

// lastName returns the last name of an expression: c of a.b.c, T of *T.
func lastName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.StarExpr:
		return lastName(x.X)
	case *ast.IndexExpr:
		return lastName(x.X)
	}
	return ""
}
