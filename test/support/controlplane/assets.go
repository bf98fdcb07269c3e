package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/berthdev/berth"

// Binaries are the folders with the binaries of a control plane.
type Binaries struct {
	// Folders are searched in this order.
	Folders []string
}

// Assets returns the folders of KUBEBUILDER_ASSETS and BERTH_TOOLS, in this order, where they
// are set. Where BERTH_TOOLS is not, it runs tools/build.sh, which builds what is missing,
// shows its progress on stderr (about ten minutes the first time) and prints its folder.
func Assets(ctx context.Context) (Binaries, error) {
	var b Binaries
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		b.Folders = append(b.Folders, dir)
	}
	if dir := os.Getenv("BERTH_TOOLS"); dir != "" {
		b.Folders = append(b.Folders, dir)
		return b, nil
	}
	root, err := ModuleRoot()
	if err != nil {
		return Binaries{}, err
	}
	build := exec.CommandContext(ctx, filepath.Join(root, "tools", "build.sh"))
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		return Binaries{}, fmt.Errorf("build the control plane with tools/build.sh: %w", err)
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return Binaries{}, errors.New("tools/build.sh printed no folder")
	}
	b.Folders = append(b.Folders, lines[len(lines)-1])
	return b, nil
}

// Path returns the path of a binary or folder. The error names the folders that were searched.
func (b Binaries) Path(name string) (string, error) {
	for _, dir := range b.Folders {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("no %s in %s: run `make controlplane`, or correct KUBEBUILDER_ASSETS or BERTH_TOOLS",
		name, strings.Join(b.Folders, ", "))
}

// ModuleRoot returns the folder of Berth's own go.mod: the working directory or one above it.
// Nested modules are skipped.
func ModuleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && declares(text, modulePath) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of %s in %s or above it", modulePath, start)
		}
	}
}

func declares(gomod []byte, module string) bool {
	lines := bufio.NewScanner(bytes.NewReader(gomod))
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) >= 2 && f[0] == "module" {
			return f[1] == module
		}
	}
	return false
}
