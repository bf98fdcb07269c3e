//go:build schedulerplugins

// Command port copies the pinned module sigs.k8s.io/scheduler-plugins, which is made
// for Kubernetes 1.35, and makes the changes without which it does not compile with
// 1.37. Beside the copy it writes a go.mod that uses it:
//
//	go run -tags schedulerplugins ./port /tmp/scheduler-plugins
//	go build -tags schedulerplugins -modfile=/tmp/scheduler-plugins.mod .
//
// What is not in its list of edits is what the module's authors published.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const module = "sigs.k8s.io/scheduler-plugins"

func main() {
	if len(os.Args) != 2 || !filepath.IsAbs(os.Args[1]) {
		fmt.Fprintln(os.Stderr, "usage: port FOLDER, an absolute path")
		os.Exit(2)
	}
	if err := portModule(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "port:", err)
		os.Exit(1)
	}
}

// portModule writes the copy to folder, and folder.mod and folder.sum beside it.
func portModule(folder string) error {
	// Unlike go list, it fetches the module where the cache does not have it yet.
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return fmt.Errorf("downloading %s: %w", module, err)
	}
	var fetched struct{ Dir string }
	if err := json.Unmarshal(out, &fetched); err != nil {
		return fmt.Errorf("downloading %s: %w", module, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := copyModule(fetched.Dir, folder); err != nil {
		return err
	}
	for _, e := range edits {
		if err := e.apply(folder); err != nil {
			return err
		}
	}
	return writeModfile(folder)
}

// copyModule copies the module. Files of the module cache are read-only; those of the
// copy are not.
func copyModule(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
	})
}

// apply makes the edit. It returns an error unless the old text occurs exactly once.
func (e edit) apply(folder string) error {
	path := filepath.Join(folder, "pkg", filepath.FromSlash(e.file))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(e.old)); n != 1 {
		return fmt.Errorf("%s: %q is there %d times, want once: has the version changed?", path, e.old, n)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(e.old), []byte(e.new), 1), 0o644)
}

// writeModfile writes this module's go.mod with a replace directive for the copy.
func writeModfile(folder string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	mod = fmt.Appendf(mod, "\nreplace %s => %s\n", module, filepath.ToSlash(folder))
	if err := os.WriteFile(folder+".mod", mod, 0o644); err != nil {
		return err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	return os.WriteFile(folder+".sum", sum, 0o644)
}
