package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Open makes the scheduler that a log is run through; what it starts ends with
// ctx.
type Open func(ctx context.Context, config Config) (Scheduler, error)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command is the command line of a replay, whichever scheduler is behind it.
// It returns the exit code: 2 for a wrong command line, 1 for a wrong log.
func Command(name string, args []string, streams Streams, open Open) int {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(streams.Err)
	profile := flags.String("profile", "", "YAML `file` with a SchedulingProfile and PluginConfigs; none is kube-scheduler's default profile")
	bench := flags.Bool("bench", false, "print what the run cost, and a hash of the decisions, instead of the decisions")
	explain := flags.Bool("explain", false, "add the weighted scores of every node that was scored, and every node that a preemption could choose")
	preempt := flags.Bool("preempt", false, "run PostFilter for pods that fit nowhere, and print where it promised them room and who would have to leave; that they leave is for the log to say")
	flags.Usage = func() {
		fmt.Fprintf(streams.Err, "usage: %s [flags] LOG.jsonl, or - for the standard input\n%s", name, flags.FlagUsages())
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(streams.Err, "%s: %v\n", name, err)
		return 2
	case flags.NArg() != 1:
		flags.Usage()
		return 2
	}
	config, err := configFrom(*profile)
	if err == nil {
		config.Explain, config.Preempt = *explain, *preempt
		err = replay(flags.Arg(0), config, streams, open, *bench)
	}
	if err != nil {
		fmt.Fprintf(streams.Err, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

func configFrom(file string) (Config, error) {
	if file == "" {
		return Config{Profile: DefaultProfile()}, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	config, err := ReadProfile(f)
	if err != nil {
		return config, fmt.Errorf("%s: %w", file, err)
	}
	return config, nil
}

func replay(file string, config Config, streams Streams, open Open, bench bool) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	scheduler, err := open(ctx, config)
	if err != nil {
		return fmt.Errorf("profile %s: %w", config.Profile.Name, err)
	}
	in := streams.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	out := bufio.NewWriter(streams.Out)
	reader, ops, attempts := log.NewReader(in), 0, 0
	next := func() (log.Op, error) {
		op, err := reader.Next()
		if err == nil {
			ops++
			if op.Kind == log.Schedule {
				attempts++
			}
		}
		return op, err
	}
	if bench {
		err = printBench(scheduler, next, out)
	} else {
		err = Run(scheduler, next, func(o *Outcome) error { return write(out, o) })
	}
	switch {
	case err != nil:
	case ops == 0:
		err = errors.New("the log is empty")
	case attempts == 0:
		err = fmt.Errorf("the log schedules nothing: it has %d lines, and none with the op schedule", ops)
	}
	if flushed := out.Flush(); err == nil {
		return flushed
	}
	return fmt.Errorf("%s: %w", file, err)
}

func printBench(scheduler Scheduler, next func() (log.Op, error), out io.Writer) error {
	bench, err := Measure(scheduler, next)
	if err != nil {
		return err
	}
	return write(out, bench)
}

func write(out io.Writer, value interface{ Line() ([]byte, error) }) error {
	text, err := value.Line()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}
