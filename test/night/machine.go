package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/procs"
)

// tested are the pathspecs of what parts test. They leave out documents, among which are the parts;
// the files in which layers leave what they find, which add one more input; and what no layer runs:
// the specs of integration, of installation, of what is observed, of documents, of the sources'
// layout and of the page, the demo, the site, the Makefile, and what is made of config/ and the sources,
// with its tools.
var tested = []string{
	".", ":(exclude)docs", ":(exclude,glob)**/*.md",
	":(exclude,glob)**/testdata/fuzz/**", ":(exclude)test/exactness/oracle/cases",
	":(exclude,glob)test/integration/*_test.go", ":(exclude)test/integration/scenarios",
	":(exclude)test/install", ":(exclude)test/ui", ":(exclude)test/observability", ":(exclude)test/docs", ":(exclude)test/architecture",
	":(exclude)demo", ":(exclude)site", ":(exclude)Makefile",
	":(exclude)bundle", ":(exclude)charts", ":(exclude)dist",
	":(exclude)tools/apidocs", ":(exclude)tools/bundle", ":(exclude)tools/chart", ":(exclude)tools/helm", ":(exclude)tools/olm",
	":(exclude)tools/plot", ":(exclude)tools/release",
}

// newPart returns a part that begins now.
func newPart(ctx context.Context, root string, now time.Time) *part {
	p := &part{
		Name: now.UTC().Format("2006-01-02T15-04-05"), Began: now.UTC(), Ended: now.UTC(), Machine: procs.Machine(), LoadBefore: procs.LoadAverage(),
		Layers: map[string]*record{}, Skipped: map[string]string{}, Commit: "unknown",
	}
	if commit, err := git(ctx, root, append([]string{"log", "-1", "--format=%h", "--abbrev=12", "--"}, tested...)...); err == nil {
		p.Commit = strings.TrimSpace(string(commit))
	}
	if changes, err := git(ctx, root, append([]string{"status", "--porcelain", "--untracked-files=all", "--"}, tested...)...); err == nil {
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
