package architecture

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readModule reads the imports of every package of the module at root, for
// all systems and build tags alike. Nested modules are others' houses.
func readModule(root string) ([]pkg, error) {
	packages := map[string]*pkg{} // room → package
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
		room, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		room = filepath.ToSlash(room)
		if packages[room] == nil {
			packages[room] = &pkg{room: room}
		}
		return packages[room].read(file)
	})
	var all []pkg
	for _, p := range packages {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b pkg) int { return strings.Compare(a.room, b.room) })
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
