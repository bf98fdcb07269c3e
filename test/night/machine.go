package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os/exec"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/procs"
)

// shipped are the files and folders that make up what ships.
var shipped = []string{"go.mod", "main.go", "api", "config", "controllers", "operator", "scheduler"}

// newPart returns a part that begins now.
func newPart(ctx context.Context, root string, now time.Time) *part {
	p := &part{
		Name: now.UTC().Format("2006-01-02T15-04-05"), Began: now.UTC(), Ended: now.UTC(), Machine: procs.Machine(), LoadBefore: procs.LoadAverage(),
		Layers: map[string]*record{}, Skipped: map[string]string{}, Commit: "unknown",
	}
	if commit, err := git(ctx, root, "describe", "--always", "--abbrev=12", "--exclude=*"); err == nil {
		p.Commit = strings.TrimSpace(string(commit))
	}
	// ls-tree has a hash of each folder, so that the sum changes with any file.
	if tree, err := git(ctx, root, append([]string{"ls-tree", "HEAD", "--"}, shipped...)...); err == nil {
		sum := sha256.Sum256(tree)
		p.Product = hex.EncodeToString(sum[:6])
	}
	if changes, err := git(ctx, root, "status", "--porcelain"); err == nil {
		p.Dirty = len(bytes.TrimSpace(changes)) > 0
	}
	return p
}

func git(ctx context.Context, root string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	return cmd.Output()
}

// describeCommit returns the commit, with a plus where files differ from it.
func (p *part) describeCommit() string {
	if p.Dirty {
		return p.Commit + "+"
	}
	return p.Commit
}
