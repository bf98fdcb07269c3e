// Command mutants breaks Berth in one place after the other, and asks the tests whether they
// find it. A mutation that no test finds is behaviour that nothing tests.
//
//	go run ./test/simulation/mutations
//	go run ./test/simulation/mutations --only ForgetSkipped,NaiveSwap
//	go run ./test/simulation/mutations --from 40 --count 8
//	go run ./test/simulation/mutations --only NaiveSwap -- go test ./scheduler -run TestSwaps
//
// The mutations are edits of the code: see editFiles. One overlay for the go command's flag
// -overlay has all of them, each behind a variable that exists in the overlay only, so that
// each test binary is built once, and a manager that a suite builds as well. Without a
// mutation all tests that the table names must run and pass; with each mutation each of its
// tests must fail. A build that fails and a run of no test are errors. It prints which tests
// failed, and ends with "mutants: ok", or with the mutations that survived.
//
// With a command after -- it runs that command with the overlay and the one mutation of
// --only, or none.
//
//	go run ./test/simulation/mutations --planted --json=FILE [--layers=units,histories] [--root=DIR]
//
// With --planted it asks each layer of tests whether it finds faults that are rarer and
// smaller: see planted_table.go. It prints the share of each layer; none has to find all. A run
// goes on with what FILE has of the same commit. With --root it tests another tree, such as an
// earlier commit.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("mutants", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parseOptions(args)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "berth-mutants-")
		if err != nil {
			return fmt.Errorf("making a folder for test binaries: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		l := &lab{dir: dir, out: out, root: o.root}
		if l.root == "" {
			if l.root, err = moduleRoot(ctx); err != nil {
				return err
			}
		}
		if o.planted {
			return (&plantedRun{lab: l, faults: o.faults, layers: o.layers, file: o.file}).run(ctx)
		}
		if err := l.prepare(); err != nil {
			return err
		}
		if len(o.program) > 0 {
			return l.runProgram(ctx, o.chosen, o.program)
		}
		return l.hunt(ctx, o.chosen)
	})
}

// options are the command line.
type options struct {
	// chosen are the mutations, and program what is run with one of them instead of the tests.
	chosen  []mutant
	program []string
	// planted says that faults and layers are asked for instead, and the findings are
	// written to file.
	planted bool
	faults  []plantedFault
	layers  []layer
	file    string
	// root is the folder of the tested module; empty: this one.
	root string
}

func parseOptions(args []string) (o options, err error) {
	flags := command.Flags("mutants")
	only := flags.StringSlice("only", nil, "use these mutations only, by name")
	flags.BoolVar(&o.planted, "planted", false, "use the planted faults instead of the mutations, and print what each layer finds")
	names := flags.StringSlice("layers", nil, "with --planted: use these layers only")
	flags.StringVar(&o.file, "json", "", "with --planted: read earlier findings from this file, and write them to it")
	flags.StringVar(&o.root, "root", "", "with --planted: the folder of the module to test; default: this one")
	from := flags.Uint64("from", 0, "the index of the first mutation, with --count; after the last comes the first")
	count := flags.Uint64("count", 0, "use so many mutations only; 0: all")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if at := flags.ArgsLenAtDash(); at >= 0 {
		o.program = flags.Args()[at:]
	}
	if flags.NArg() > len(o.program) {
		return o, fmt.Errorf("unexpected argument %q: mutations are named with --only", flags.Arg(0))
	}
	if !o.planted {
		for _, name := range []string{"layers", "json", "root"} {
			if flags.Changed(name) {
				return o, fmt.Errorf("--%s: requires --planted", name)
			}
		}
		if *count > 0 {
			if len(*only) > 0 {
				return o, errors.New("--only: must not be set with --count")
			}
			o.chosen = rotate(table, *from, *count)
			return o, nil
		}
		o.chosen, err = choose(*only, o.program)
		return o, err
	}
	if len(o.program) > 0 {
		return o, errors.New("--planted: takes no command")
	}
	if o.faults, err = named("only", *only, planted, func(f plantedFault) string { return f.name }); err != nil {
		return o, err
	}
	o.layers, err = named("layers", *names, layers, func(l layer) string { return l.name })
	return o, err
}

// named returns those of all that a flag names; all where it names none.
func named[T any](flag string, chosen []string, all []T, name func(T) string) (found []T, err error) {
	if len(chosen) == 0 {
		return all, nil
	}
	for _, one := range chosen {
		i := slices.IndexFunc(all, func(t T) bool { return name(t) == one })
		if i < 0 {
			var names []string
			for _, t := range all {
				names = append(names, name(t))
			}
			return nil, fmt.Errorf("--%s: there is no %q; there are %s", flag, one, strings.Join(names, ", "))
		}
		found = append(found, all[i])
	}
	return found, nil
}

// choose returns the rows of the table that the command line asks for. With a program it is at
// most one.
func choose(only, program []string) ([]mutant, error) {
	if len(only) == 0 && len(program) > 0 {
		return nil, nil
	}
	chosen, err := named("only", only, table, func(m mutant) string { return m.name })
	if err == nil && len(program) > 0 && len(chosen) > 1 {
		return nil, fmt.Errorf("--only: %d mutations, want at most one for a command", len(chosen))
	}
	return chosen, err
}

// rotate returns count mutations from an index on, each once; after the last comes the first.
func rotate(all []mutant, from, count uint64) (chosen []mutant) {
	n := uint64(len(all))
	for i := range min(count, n) {
		chosen = append(chosen, all[(from+i)%n])
	}
	return chosen
}

func names() []string {
	all := make([]string, len(table))
	for i, m := range table {
		all[i] = m.name
	}
	return all
}

// runProgram runs a program with the overlay in GOFLAGS and at most one mutation.
func (l *lab) runProgram(ctx context.Context, chosen []mutant, program []string) error {
	mutation := ""
	if len(chosen) > 0 {
		mutation = chosen[0].name
	}
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environment(l.overlay, mutation), os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// hunt builds what the mutants need, shows that it passes without a mutation, and runs it
// with each.
func (l *lab) hunt(ctx context.Context, mutants []mutant) error {
	if err := l.build(ctx, mutants); err != nil {
		return err
	}
	if err := l.healthy(ctx, mutants); err != nil {
		return err
	}
	survivors := 0
	for _, m := range mutants {
		killed, err := l.plant(ctx, m)
		if err != nil {
			return err
		}
		if !killed {
			survivors++
		}
	}
	l.say("%d mutations, %d survived", len(mutants), survivors)
	if survivors > 0 {
		return errors.New("a mutation that is not found is not tested for: write the test that finds it")
	}
	return nil
}
