// Command chart writes the Helm chart charts/berth from config/, so that the two cannot
// differ: with its default values, the chart renders the objects of config/default, and each
// kustomize component is a value. Run it in the root of the module: go run ./tools/chart
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(filepath.Join("charts", "berth")); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	base, err := build(nil)
	if err != nil {
		return err
	}
	c := chart{files: map[string]string{}}
	if err := c.addBase(base); err != nil {
		return err
	}
	for _, component := range Components {
		with, err := build([]string{component.Folder})
		if err != nil {
			return err
		}
		if err := c.addComponent(component, base, with); err != nil {
			return fmt.Errorf("%s: %w", component.Folder, err)
		}
	}
	if err := c.addOtherFiles(); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for name, text := range c.files {
		path := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
