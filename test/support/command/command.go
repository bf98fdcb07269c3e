// Package command has what the commands of the tests share: flags without other arguments,
// shutdown on SIGINT and SIGTERM, and a last line with the result.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// RunFunc does the work of a command until it is done or ctx ends, and writes its output to
// out. The error for a wrong argument names it and what is expected; pflag.ErrHelp means
// that help was printed.
type RunFunc func(ctx context.Context, args []string, out io.Writer) error

// Main is the main function of a command. It exits with code 1 if run fails.
func Main(name string, run RunFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Execute(ctx, name, run, Streams{Args: os.Args[1:], Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

// Streams are the arguments and output streams of a command.
type Streams struct {
	Args     []string
	Out, Err io.Writer
}

// Execute runs a command, prints the result, and returns the exit code.
func Execute(ctx context.Context, name string, run RunFunc, s Streams) int {
	switch err := run(ctx, s.Args, s.Out); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		_, _ = fmt.Fprintf(s.Err, "%s: failed: %v\n", name, err)
		return 1
	}
	_, _ = fmt.Fprintf(s.Out, "%s: ok\n", name)
	return 0
}

// Flags returns the flags of a command. Help lists them in the order in which they are
// added.
func Flags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	return f
}

// Parse parses flags and rejects other arguments.
func Parse(f *pflag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are taken", f.Arg(0))
	}
	return nil
}
