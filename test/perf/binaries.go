package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// binaries are the paths of the measured programs.
type binaries struct{ manager, kube, null, slow string }

// build builds Berth, Berth with a slow plugin, and the null binder, and finds kube-scheduler.
func (b *bench) build(ctx context.Context) (err error) {
	if b.binaries.manager, err = operator.Build(ctx); err != nil {
		return err
	}
	b.binaries.null = filepath.Join(filepath.Dir(b.binaries.manager), "nullbinder")
	if err := goBuild(ctx, b.binaries.null, "./test/perf/nullbinder"); err != nil {
		return err
	}
	b.binaries.slow = filepath.Join(filepath.Dir(b.binaries.manager), "slow")
	if err := goBuild(ctx, b.binaries.slow, "./test/perf/slow"); err != nil {
		return err
	}
	assets, err := controlplane.Assets(ctx)
	if err != nil {
		return err
	}
	if b.binaries.kube, err = assets.Path("kube-scheduler"); err != nil {
		return err
	}
	return checkBuildSettings(b.binaries.manager, b.binaries.kube)
}

// goBuild builds a package of Berth's module.
func goBuild(ctx context.Context, to, pkg string) error {
	root, err := controlplane.ModuleRoot()
	if err != nil {
		return err
	}
	return goBuildIn(ctx, root, to, pkg)
}

// goBuildIn builds a package of the module in dir.
func goBuildIn(ctx context.Context, dir, to, pkg string) error {
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", to, pkg)
	build.Dir, build.Stdout, build.Stderr = dir, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w", pkg, err)
	}
	return nil
}

// speedSettings are the build settings that change the speed.
var speedSettings = []string{"GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "-race", "-gcflags", "-asan", "-msan", "-cover"}

// checkBuildSettings fails where two binaries were built differently.
func checkBuildSettings(a, b string) error {
	x, err := buildinfo.ReadFile(a)
	if err != nil {
		return err
	}
	y, err := buildinfo.ReadFile(b)
	if err != nil {
		return err
	}
	var errs []error
	differ := func(what, ours, theirs string) {
		if ours != theirs {
			errs = append(errs, fmt.Errorf("%s and %s were built with different %s: %q and %q; build both the same way",
				filepath.Base(a), filepath.Base(b), what, ours, theirs))
		}
	}
	differ("Go", x.GoVersion, y.GoVersion)
	for _, key := range speedSettings {
		differ(key, setting(x, key), setting(y, key))
	}
	return errors.Join(errs...)
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// describe returns the commit and the machine.
func describe() string {
	busy, _, _ := strings.Cut(procs.LoadAverage(), " ")
	return fmt.Sprintf("commit %s; %s, load average %s at the start", commit(), procs.Machine(), busy)
}

// commit is the commit of the source tree, with a plus where files outside docs differ from it: the
// parts that were measured before are there.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(head))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ":(top,exclude)docs").Run() != nil {
		name += "+"
	}
	return name
}
