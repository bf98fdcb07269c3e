package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// simulation is the package that plays seeds; it takes flags of its own.
	simulation = "test/simulation"
	// everyHistory is its test, and simSeeds are how many seeds it may take to
	// find a mutation.
	everyHistory = "TestEveryHistoryKeepsTheInvariants"
	simSeeds     = "2000"
	// everyGangHistory is the same for histories of gangs.
	everyGangHistory = "TestEveryHistoryOfGangsKeepsTheInvariants"
	everyInput       = "TestEveryInputOfTheCorpusKeepsTheInvariants"
	gangSimSeeds     = "200"
	// everyReplicaHistory is the same for histories of replicas.
	everyReplicaHistory = "TestEveryHistoryOfReplicasKeepsTheInvariants"
	replicaSimSeeds     = "300"
	// everyGangReplicaHistory is the same for histories of gangs and replicas.
	everyGangReplicaHistory = "TestEveryHistoryOfGangsAndReplicasKeepsTheInvariants"
	gangReplicaSimSeeds     = "1000"
	// The same for histories of volumes, of devices and of explanations.
	everyVolumeHistory      = "TestEveryHistoryOfVolumesKeepsTheInvariants"
	everyDeviceHistory      = "TestEveryHistoryOfDevicesKeepsTheInvariants"
	everyExplanationHistory = "TestEveryHistoryOfExplanationsKeepsTheInvariants"
	furtherSimSeeds         = "2000"
	// The same for histories of controllers.
	everyControllerHistory = "TestEveryHistoryOfControllersKeepsTheInvariants"
	controllerSimSeeds     = "200"
	// deadline is the longest that one run of a test binary may take. A mutation
	// that makes tests hang is found, too.
	deadline = 3 * time.Minute
)

// lab builds test binaries with all mutations into dir and runs them with one.
type lab struct {
	root, dir, overlay string
	out                io.Writer
}

func (l *lab) say(format string, args ...any) { _, _ = fmt.Fprintf(l.out, format+"\n", args...) }

func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module's folder: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// goTool runs the go command in the module's folder, with the overlay.
func (l *lab) goTool(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = l.root, environment(l.overlay, "")
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// prepare writes the overlay with all mutations.
func (l *lab) prepare() error { return l.writeOverlay(editFiles, "edits", names()) }

func (l *lab) writeOverlay(files fs.FS, folder string, mutations []string) error {
	edits, err := readEdits(files, folder)
	if err != nil {
		return err
	}
	l.overlay, err = writeOverlay(l.root, filepath.Join(l.dir, "overlay"), edits, mutations)
	return err
}

// build builds each test binary once.
func (l *lab) build(ctx context.Context, mutants []mutant) error {
	for _, pkg := range packagesOf(mutants) {
		begin := time.Now()
		if err := l.buildTests(ctx, pkg); err != nil {
			return err
		}
		l.say("built the tests of %s (%s)", pkg, since(begin))
	}
	return nil
}

// buildTests builds the tests of a package with all mutations.
func (l *lab) buildTests(ctx context.Context, pkg string) error {
	// -w: nobody debugs these, and linking is most of the work.
	return l.goTool(ctx, "test", "-c", "-ldflags", "-w", "-o", l.binary(pkg), "./"+pkg)
}

func (l *lab) binary(pkg string) string {
	return filepath.Join(l.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// healthy shows that all tests run, and pass without a mutation.
func (l *lab) healthy(ctx context.Context, mutants []mutant) error {
	for _, pkg := range packagesOf(mutants) {
		begin := time.Now()
		tests := testsOf(mutants, pkg)
		result := l.run(ctx, killer{pkg, strings.Join(tests, "|")}, "")
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result.red || result.ran != len(tests) {
			return fmt.Errorf("without a mutation %d of %d tests of %s ran: %s\n%s", result.ran, len(tests), pkg, result.why, result.output)
		}
		l.say("%s passes without a mutation (%s)", pkg, since(begin))
	}
	return nil
}

// plant runs all that must find a mutation, and says what did. That nothing ran is an error.
func (l *lab) plant(ctx context.Context, m mutant) (killed bool, err error) {
	begin := time.Now()
	l.say("%s: %s", m.name, m.breaks)
	killed = true
	for _, k := range m.all() {
		result := l.run(ctx, k, m.name)
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if strings.Contains(result.output, unknownMutation) || result.ran == 0 {
			return false, fmt.Errorf("%s: nothing ran: %s\n%s", k.pkg, result.why, result.output)
		}
		switch {
		case !result.red:
			killed = false
			l.say("  SURVIVED %s %s", k.pkg, k.test)
			continue
		case k.test == everyCell && result.cells < fewestCells:
			killed = false
			l.say("  SURVIVED %s %s in all but %d cells, want at least %d failed", k.pkg, k.test, result.cells, fewestCells)
			continue
		case k.test == everyCell:
			l.say("  fails in %d cells of %s %s", result.cells, k.pkg, k.test)
		}
		l.say("  killed by %s %s", k.pkg, result.why)
	}
	if m.unseen != "" {
		l.say("  not found by the simulation: %s", m.unseen)
	}
	l.say("  (%s)", since(begin))
	return killed, nil
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }
