package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

// declared are the faults that a file of scheduler/fault declares, in order.
func declared(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "scheduler/fault", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, decl := range parsed.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Lparen == token.NoPos || group.Tok == token.IMPORT {
			continue
		}
		for _, spec := range group.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				found = append(found, name.Name)
			}
		}
	}
	return found
}

func TestTheTableHasEveryFault(t *testing.T) {
	for _, file := range []string{"off.go", "on.go"} {
		if diff := cmp.Diff(names(), declared(t, file)); diff != "" {
			t.Errorf("faults of the table and of scheduler/fault/%s (-table +file):\n%s", file, diff)
		}
	}
}

func TestEveryFaultIsPlantedSomewhere(t *testing.T) {
	planted := map[string]bool{}
	use := regexp.MustCompile(`fault\.([A-Z]\w+)`)
	for _, dir := range []string{"scheduler", "controllers", "operator"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			text, err := os.ReadFile(file)
			for _, match := range use.FindAllSubmatch(text, -1) {
				planted[string(match[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names() {
		if !planted[name] {
			t.Errorf("%s is planted nowhere", name)
		}
	}
}

func TestEveryKillerExists(t *testing.T) {
	for _, m := range table {
		if len(m.killers) == 0 {
			t.Errorf("%s has no killer beside the simulation", m.fault)
		}
		for _, k := range m.all() {
			tests, err := filepath.Glob(filepath.Join(root, k.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(tests, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "func "+k.test+"(")
			}) {
				t.Errorf("%s is to be killed by %s of %s, which does not exist", m.fault, k.test, k.pkg)
			}
		}
	}
}
