// Command fuzzing runs every fuzz target of the repository, one after the other.
//
//	go run ./test/fuzzing [--time=2m] [--only=REGEXP] [--from=8 --count=4] [--parallel=1] [--list] [--json=FILE [--resume]]
//
// It finds the targets in the test files, so that none is forgotten. An input that fails is
// written by go test to testdata/fuzz of its package, where plain go test runs it from then on;
// inputs that reach new code stay in Go's build cache and are the beginning of the next run.
// With --resume, targets that passed according to FILE are not run again. The exit code is 1 if
// a target fails, and 2 for an invalid command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

type options struct {
	each time.Duration
	only *regexp.Regexp
	// from and count choose targets by their place; count 0: all.
	from, count uint64
	parallel    int
	list        bool
	file        string
	resume      bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "fuzzing:", err)
		os.Exit(2)
	}
	passed, err := o.run(ctx, ".", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzing:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// parseOptions reads the command line. The error says which flag is invalid.
func parseOptions(args []string, usage io.Writer) (o options, err error) {
	flags := pflag.NewFlagSet("fuzzing", pflag.ContinueOnError)
	flags.SetOutput(usage)
	flags.DurationVar(&o.each, "time", 2*time.Minute, "how long each target runs")
	only := flags.String("only", "", "run the targets that match this regular expression, as scheduler/cycle.FuzzClassKeys")
	flags.Uint64Var(&o.from, "from", 0, "the place of the first target, with --count; after the last comes the first")
	flags.Uint64Var(&o.count, "count", 0, "run so many targets only; 0: all")
	flags.IntVar(&o.parallel, "parallel", 1, "how many processes run a target")
	flags.BoolVar(&o.list, "list", false, "print the targets and run none")
	flags.StringVar(&o.file, "json", "", "`file` to which the results are written after each target")
	flags.BoolVar(&o.resume, "resume", false, "do not run targets again that passed according to the file of --json")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("--only: %w", err)
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.each < time.Second:
		return o, fmt.Errorf("--time: must be at least 1s, is %v", o.each)
	case o.parallel < 1:
		return o, fmt.Errorf("--parallel: must be at least 1, is %d", o.parallel)
	case o.resume && o.file == "":
		return o, errors.New("--resume: requires --json")
	}
	return o, nil
}

// run runs the targets below root and prints a table. It returns whether all passed that ran.
func (o options) run(ctx context.Context, root string, out io.Writer) (passed bool, err error) {
	all, err := findTargets(root)
	if err != nil {
		return false, err
	}
	var chosen []target
	for _, t := range all {
		if o.only.MatchString(t.String()) {
			chosen = append(chosen, t)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("none of %d targets matches --only", len(all))
	}
	chosen = rotate(chosen, o.from, o.count)
	if o.list {
		for _, t := range chosen {
			fmt.Fprintln(out, t)
		}
		return true, nil
	}
	var report report
	if o.resume {
		if report, err = readReport(o.file); err != nil {
			return false, err
		}
	}
	for i, t := range chosen {
		if report.hasPassed(t) {
			fmt.Fprintf(out, "%d/%d %s: passed before\n", i+1, len(chosen), t)
			continue
		}
		fmt.Fprintf(out, "%d/%d %s\n", i+1, len(chosen), t)
		result := t.run(ctx, root, o, out)
		if ctx.Err() != nil {
			err = errors.New("interrupted: --resume goes on with this target")
			break
		}
		report.add(result)
		if o.file != "" {
			if err := report.write(o.file); err != nil {
				return false, err
			}
		}
	}
	report.printTable(out)
	return report.passed() && err == nil, err
}

// rotate returns count targets from a place on, each once; after the last comes the first. All of
// them in their order where count is 0.
func rotate(all []target, from, count uint64) (chosen []target) {
	n := uint64(len(all))
	if count == 0 {
		return all
	}
	for i := range min(count, n) {
		chosen = append(chosen, all[(from%n+i)%n])
	}
	return chosen
}
