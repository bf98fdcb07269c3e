// Command mutants plants faults in Berth, one at a time, and asks the tests
// whether they find them. A fault that no test finds is a promise that nothing
// holds.
//
//	go run ./test/simulation/mutations
//	go run ./test/simulation/mutations --only ForgetSkipped,NaiveSwap
//
// Each test binary is built once, with the build tag that makes the faults of
// scheduler/fault variables. Without a fault all tests that the table names
// must pass; with each fault each of its tests must fail. It prints which did,
// and ends with "mutants: ok", or with those that survived.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/berthdev/berth/test/support/command"
)

func main() {
	command.Main("mutants", func(ctx context.Context, args []string, out io.Writer) error {
		chosen, err := choose(args)
		if err != nil {
			return err
		}
		return hunt(ctx, out, chosen)
	})
}

// choose returns the rows of the table that the command line asks for.
func choose(args []string) ([]mutant, error) {
	flags := command.Flags("mutants")
	only := flags.StringSlice("only", nil, "plant these faults alone, by name")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: faults are named with --only", flags.Arg(0))
	}
	if len(*only) == 0 {
		return table, nil
	}
	var chosen []mutant
	for _, name := range *only {
		i := slices.IndexFunc(table, func(m mutant) bool { return m.fault == name })
		if i < 0 {
			return nil, fmt.Errorf("--only: there is no fault %q; there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, table[i])
	}
	return chosen, nil
}

func names() []string {
	all := make([]string, len(table))
	for i, m := range table {
		all[i] = m.fault
	}
	return all
}

// hunt builds what the mutants need, shows that it passes without a fault, and
// plants each.
func hunt(ctx context.Context, out io.Writer, mutants []mutant) error {
	dir, err := os.MkdirTemp("", "berth-mutants-")
	if err != nil {
		return fmt.Errorf("making a folder for test binaries: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l := &lab{dir: dir, out: out}
	if l.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	if err := l.pure(ctx); err != nil {
		return err
	}
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
	l.say("%d faults planted, %d survived", len(mutants), survivors)
	if survivors > 0 {
		return errors.New("a fault that is not found is not tested for: write the test that finds it")
	}
	return nil
}
