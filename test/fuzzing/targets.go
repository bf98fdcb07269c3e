package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// target is a fuzz function.
type target struct {
	// folder is the folder of its package, relative to the root, with slashes.
	folder string
	name   string
}

// String is the folder and the name, as scheduler/cycle.FuzzClassKeys.
func (t target) String() string { return t.folder + "." + t.name }

// findTargets returns the fuzz functions in the test files of root and of all folders below,
// those of nested modules included, by folder and name.
func findTargets(root string) ([]target, error) {
	var all []target
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isSkipped(entry.Name()) && path != root:
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		names, err := fuzzFunctions(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, name := range names {
			all = append(all, target{filepath.ToSlash(folder), name})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b target) int { return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.name, b.name)) })
	return all, err
}

// isSkipped reports whether the go command ignores a folder of this name, or it holds no code
// of ours.
func isSkipped(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules"
}

// fuzzFunctions returns the names of the fuzz functions of a file: those that go test runs.
func fuzzFunctions(path string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, declared := range file.Decls {
		f, ok := declared.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && takesF(f.Type.Params) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

// takesF reports whether the only parameter is a *testing.F.
func takesF(params *ast.FieldList) bool {
	if params.NumFields() != 1 {
		return false
	}
	pointer, ok := params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	of, ok := pointer.X.(*ast.SelectorExpr)
	return ok && of.Sel.Name == "F"
}
