package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryKillerExists(t *testing.T) {
	root, err := moduleRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		if len(m.killers) == 0 {
			t.Errorf("%s has no killer beside the simulation", m.name)
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
				t.Errorf("%s is to be killed by %s of %s, which does not exist", m.name, k.test, k.pkg)
			}
		}
	}
}
