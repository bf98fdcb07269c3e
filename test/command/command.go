// Package command is how the commands under test begin and end: flags and nothing
// else, an orderly end at SIGINT and SIGTERM, and a last line that says how it went.
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

// Run is a command's work: what its arguments say is done until ctx ends, and what
// there is to tell is written to out. An argument that is wrong is an error that names
// it and what would be right; pflag.ErrHelp says that help was asked for, and given.
type RunFunc func(ctx context.Context, args []string, out io.Writer) error

// Main is the main function of the command of that name. It ends the process with
// exit code 1 where run fails.
func Main(name string, run RunFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Execute(ctx, name, run, Streams{Args: os.Args[1:], Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}

// Streams is what a command is called with.
type Streams struct {
	Args     []string
	Out, Err io.Writer
}

// Play runs the command, says how it went, and returns its exit code.
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

// Flags are the flags of the command of that name, in help in the order in which they
// were added.
func Flags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	return f
}

// Parse reads flags, and refuses what is not one.
func Parse(f *pflag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: only flags are taken", f.Arg(0))
	}
	return nil
}
