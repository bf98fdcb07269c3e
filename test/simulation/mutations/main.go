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
		chosen, program, err := choose(args)
		if err != nil {
			return err
		}
		dir, err := os.MkdirTemp("", "berth-mutants-")
		if err != nil {
			return fmt.Errorf("making a folder for test binaries: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		l := &lab{dir: dir, out: out}
		if l.root, err = moduleRoot(ctx); err != nil {
			return err
		}
		if err := l.prepare(); err != nil {
			return err
		}
		if len(program) > 0 {
			return l.runProgram(ctx, chosen, program)
		}
		return l.hunt(ctx, chosen)
	})
}

// choose returns the rows of the table that the command line asks for, and the program to
// run with the mutation instead of the tests.
func choose(args []string) (chosen []mutant, program []string, err error) {
	flags := command.Flags("mutants")
	only := flags.StringSlice("only", nil, "use these mutations only, by name")
	from := flags.Uint64("from", 0, "the index of the first mutation, with --count; after the last comes the first")
	count := flags.Uint64("count", 0, "use so many mutations only; 0: all")
	if err := flags.Parse(args); err != nil {
		return nil, nil, err
	}
	if at := flags.ArgsLenAtDash(); at >= 0 {
		program = flags.Args()[at:]
	}
	if flags.NArg() > len(program) {
		return nil, nil, fmt.Errorf("unexpected argument %q: mutations are named with --only", flags.Arg(0))
	}
	for _, name := range *only {
		i := slices.IndexFunc(table, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("--only: there is no mutation %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, table[i])
	}
	switch {
	case len(program) > 0 && len(chosen) > 1:
		return nil, nil, fmt.Errorf("--only: %d mutations, want at most one for a command", len(chosen))
	case len(chosen) > 0 && *count > 0:
		return nil, nil, errors.New("--only: must not be set with --count")
	case *count > 0:
		chosen = rotate(table, *from, *count)
	case len(program) == 0 && len(chosen) == 0:
		chosen = table
	}
	return chosen, program, nil
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
