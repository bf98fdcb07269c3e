package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// Open builds the scheduler that a log is run through; what it starts ends with ctx.
type Open func(ctx context.Context, config Config) (Scheduler, error)

// Streams are a command's input and outputs.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Command runs a log through the scheduler that open returns. It returns the exit code: 2 for
// an invalid command line, 1 for an invalid log.
func Command(name string, args []string, streams Streams, open Open) int {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetOutput(streams.Err)
	profile := flags.String("profile", "", "YAML `file` with a SchedulingProfile and PluginConfigs; without it, kube-scheduler's default profile")
	bench := flags.Bool("bench", false, "print the cost of the run and a hash of the decisions, instead of the decisions")
	explain := flags.Bool("explain", false, "add the weighted scores of every node that was scored, and every candidate of a preemption")
	preempt := flags.Bool("preempt", false, "run PostFilter for pods that fit nowhere, and print the nominated node and the victims; the log itself must delete the victims")
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
	if n := len(config.Profile.Spec.Extenders); n > 0 {
		fmt.Fprintf(streams.Err, "note: profile %s has extenders (%d), and a replay does not call them: decisions may differ\n", config.Profile.Name, n)
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

// Config says how a log is run.
type Config struct {
	Profile *v1alpha1.SchedulingProfile
	// Configs are the PluginConfigs that the profile may name.
	Configs map[string]*v1alpha1.PluginConfig
	// Explain adds the scores of every node that was scored.
	Explain bool
	// Reference has Berth run its reference implementations: every plugin evaluates every
	// node, and every pod is counted, each time.
	Reference bool
	// Opaque are in-tree plugins that are built without their declarations of what they read,
	// so that Berth evaluates them each time.
	Opaque []string
	// OutOfTree are plugins beside those of the tree.
	OutOfTree []framework.Registration
	// Preempt runs PostFilter plugins for pods that fit no node.
	Preempt bool
}

// DefaultProfile returns kube-scheduler's default profile.
func DefaultProfile() *v1alpha1.SchedulingProfile {
	return &v1alpha1.SchedulingProfile{ObjectMeta: metav1.ObjectMeta{Name: "default-scheduler"}}
}

// ReadProfile reads YAML documents: a SchedulingProfile, else the default one is used, and
// PluginConfigs. The error names the document and its field.
func ReadProfile(r io.Reader) (Config, error) {
	config := Config{Configs: map[string]*v1alpha1.PluginConfig{}}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	for i := 1; ; i++ {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = config.read(text)
		}
		if err != nil {
			return config, fmt.Errorf("document %d: %w", i, err)
		}
	}
	if config.Profile == nil {
		config.Profile = DefaultProfile()
	}
	return config, nil
}

func (c *Config) read(text []byte) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(text, &is); err != nil {
		return err
	}
	if is == (metav1.TypeMeta{}) {
		return nil // only comments
	}
	if want := v1alpha1.GroupVersion.String(); is.APIVersion != want {
		return fmt.Errorf("apiVersion: must be %s, is %q", want, is.APIVersion)
	}
	switch is.Kind {
	case "SchedulingProfile":
		if c.Profile != nil {
			return fmt.Errorf("kind: there may be one SchedulingProfile, %s came before", c.Profile.Name)
		}
		c.Profile = &v1alpha1.SchedulingProfile{}
		return yaml.UnmarshalStrict(text, c.Profile)
	case "PluginConfig":
		var config v1alpha1.PluginConfig
		err := yaml.UnmarshalStrict(text, &config)
		c.Configs[config.Name] = &config
		return err
	}
	return fmt.Errorf("kind: must be SchedulingProfile or PluginConfig, is %q", is.Kind)
}
