package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// module is the path of the module that is mutated.
	module = "github.com/berthdev/berth"
	// switches is the package of the variables that edits read. It exists in the overlay only.
	switches = "internal/mutation"
	// variable of the environment names the mutation of a process; empty: none.
	variable = "BERTH_MUTATION"
)

// writeOverlay writes the mutated files of the module at root and the package of their
// switches to dir, and returns the file for the go command's flag -overlay.
func writeOverlay(root, dir string, edits []edit, mutations []string) (string, error) {
	replace := map[string]string{}
	write := func(name string, source []byte) error {
		text, err := format.Source(source)
		if err != nil {
			return fmt.Errorf("%s with its mutations: %w", name, err)
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		replace[filepath.Join(root, filepath.FromSlash(name))] = to
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	}
	for len(edits) > 0 {
		file := edits[0].file
		n := slices.IndexFunc(edits, func(e edit) bool { return e.file != file })
		if n < 0 {
			n = len(edits)
		}
		source, err := mutate(root, edits[:n])
		if err != nil {
			return "", err
		}
		if replace[filepath.Join(root, filepath.FromSlash(file))] != "" {
			return "", fmt.Errorf("%s: the edits of %s must follow one another", edits[0].from, file)
		}
		if err := write(file, source); err != nil {
			return "", err
		}
		edits = edits[n:]
	}
	if err := write(switches+"/mutation.go", switchSource(mutations)); err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o644)
}

// mutate returns a file with all its edits, which imports the switches.
func mutate(root string, edits []edit) ([]byte, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(edits[0].file)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", edits[0].from, err)
	}
	text, err := apply(string(source), edits)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), edits[0].file, text, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	end := parsed.Name.End() - parsed.FileStart
	return fmt.Appendf(nil, "%s; import %q%s", text[:end], module+"/"+switches, text[end:]), nil
}

// switchSource returns the source of the package of the switches. Its function Rare is true in
// each n-th call of a process with that mutation. A process that is asked for a mutation that
// it does not have panics.
func switchSource(mutations []string) []byte {
	var b bytes.Buffer
	b.WriteString("package mutation\n\nimport (\n\"os\"\n\"sync/atomic\"\n)\n\n")
	fmt.Fprintf(&b, "var calls atomic.Uint64\n\nfunc %s(on bool, n uint64) bool { return on && calls.Add(1)%%n == 0 }\n\n", rareSwitch)
	fmt.Fprintf(&b, "var planted = os.Getenv(%q)\n\nvar (\n", variable)
	for _, name := range mutations {
		fmt.Fprintf(&b, "%s = planted == %q\n", name, name)
	}
	fmt.Fprintf(&b, ")\n\nfunc init() {\nswitch planted {\ncase \"\", \"%s\":\ndefault:\n", strings.Join(mutations, "\", \""))
	fmt.Fprintf(&b, "panic(%q + planted)\n}\n}\n", unknownMutation)
	return b.Bytes()
}

// unknownMutation is how a process ends that is asked for a mutation it does not have.
const unknownMutation = variable + " names no mutation: "

// environment is that of a go command, a test or a manager with the overlay and one
// mutation; "": none. Vet cannot read a package that is in no folder.
func environment(overlay, mutation string) []string {
	flags := strings.TrimSpace(os.Getenv("GOFLAGS") + " -vet=off -overlay=" + overlay)
	return append(os.Environ(), "GOFLAGS="+flags, variable+"="+mutation)
}
