package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// simulation is the package that plays seeds; it takes flags of its own.
	simulation = "test/simulation"
	// everyHistory is its test, and simSeeds are how many seeds it may take to
	// find a fault.
	everyHistory = "TestEveryHistoryKeepsTheInvariants"
	simSeeds     = "2000"
	// deadline is the longest that one run of a test binary may take. A fault
	// that makes tests hang is found, too.
	deadline = 3 * time.Minute
)

// lab is where mutants are bred: a folder of test binaries.
type lab struct {
	root, dir string
	out       io.Writer
}

func (l *lab) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format+"\n", args...) }

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goTool runs the go command in the module's folder.
func (l *lab) goTool(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = l.root
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// pure shows that a normal build holds no trace of any fault.
func (l *lab) pure(ctx context.Context) error {
	begin, manager := time.Now(), filepath.Join(l.dir, "manager")
	if err := l.goTool(ctx, "build", "-o", manager, "."); err != nil {
		return err
	}
	binary, err := os.ReadFile(manager)
	if err != nil {
		return fmt.Errorf("reading the manager: %w", err)
	}
	for _, trace := range append(names(), "scheduler/fault", "BERTH_FAULT") {
		if bytes.Contains(binary, []byte(trace)) {
			return fmt.Errorf("the normal build of the manager holds %q: a fault must be a constant there", trace)
		}
	}
	l.say("the normal build of the manager holds no trace of a fault (%s)", since(begin))
	return nil
}

// build builds each test binary once.
func (l *lab) build(ctx context.Context, mutants []mutant) error {
	for _, pkg := range packagesOf(mutants) {
		begin := time.Now()
		// -w: nobody debugs these, and linking is most of the work.
		if err := l.goTool(ctx, "test", "-c", "-tags", "mutants", "-ldflags", "-w", "-o", l.binary(pkg), "./"+pkg); err != nil {
			return err
		}
		l.say("built the tests of %s (%s)", pkg, since(begin))
	}
	return nil
}

func (l *lab) binary(pkg string) string {
	return filepath.Join(l.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// healthy shows that all tests pass while no fault is planted.
func (l *lab) healthy(ctx context.Context, mutants []mutant) error {
	for _, pkg := range packagesOf(mutants) {
		begin := time.Now()
		tests := []string{}
		for _, k := range killersOf(mutants) {
			if k.pkg == pkg && !slices.Contains(tests, k.test) {
				tests = append(tests, k.test)
			}
		}
		result := l.run(ctx, killer{pkg, strings.Join(tests, "|")}, "")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result.red || result.ran == 0 {
			return fmt.Errorf("without a fault %d tests of %s ran, and this was wrong: %s\n%s", result.ran, pkg, result.why, result.output)
		}
		l.say("%s passes without a fault (%s)", pkg, since(begin))
	}
	return nil
}

// plant runs all that must find a fault, and says what did.
func (l *lab) plant(ctx context.Context, m mutant) (killed bool, err error) {
	begin := time.Now()
	l.say("%s: %s", m.fault, m.breaks)
	killed = true
	for _, k := range m.all() {
		result := l.run(ctx, k, m.fault)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if strings.Contains(result.output, "names no fault") || result.ran == 0 {
			return false, fmt.Errorf("%s: nothing ran: %s\n%s", k.pkg, result.why, result.output)
		}
		switch {
		case !result.red:
			killed = false
			l.say("  SURVIVED %s %s", k.pkg, k.test)
			continue
		case k.test == everyCell && result.cells < fewestCells:
			killed = false
			l.say("  SURVIVED %s %s in all but %d cells, want at least %d spoilt", k.pkg, k.test, result.cells, fewestCells)
			continue
		case k.test == everyCell:
			l.say("  spoils %d cells of %s %s", result.cells, k.pkg, k.test)
		}
		l.say("  killed by %s %s", k.pkg, result.why)
	}
	if m.unseen != "" {
		l.say("  out of the simulation's sight: %s", m.unseen)
	}
	l.say("  (%s)", since(begin))
	return killed, nil
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }
