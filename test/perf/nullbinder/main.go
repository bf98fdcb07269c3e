// Command nullbinder is a scheduler that decides nothing: it binds the pods of
// one schedulerName to the nodes in turn. What it reaches is the most that the
// API server and the client leave to any scheduler on the same machine.
//
// It takes part in four forms: with --watch it keeps pods and nodes in
// informers, as a scheduler must, else it lists them once; with --events it
// writes one Scheduled event a pod, as a scheduler does. It ends at SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/berth/test/support/command"
	"github.com/berthdev/berth/test/support/load"
)

// options are the flags.
type options struct {
	kubeconfig    string
	schedulerName string
	workers       int
	watch, events bool
}

func main() {
	command.Main("nullbinder", func(ctx context.Context, args []string, _ io.Writer) error {
		o, err := parse(args)
		if err != nil {
			return err
		}
		return run(ctx, o)
	})
}

func parse(args []string) (options, error) {
	var o options
	f := command.Flags("nullbinder")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "how to reach the API server")
	f.StringVar(&o.schedulerName, "scheduler-name", "", "the spec.schedulerName of the pods to bind")
	f.IntVar(&o.workers, "workers", 32, "how many bind side by side")
	f.BoolVar(&o.watch, "watch", false, "keep pods and nodes in informers instead of listing them once")
	f.BoolVar(&o.events, "events", false, "write one Scheduled event a pod")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	switch {
	case o.kubeconfig == "":
		return o, errors.New("--kubeconfig: must name a file")
	case o.schedulerName == "":
		return o, errors.New("--scheduler-name: must name the pods' scheduler")
	case o.workers < 1:
		return o, fmt.Errorf("--workers: must be at least 1, is %d", o.workers)
	}
	return o, nil
}

// run binds until outer ends, or something fails.
func run(outer context.Context, o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	client, err := load.Client(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	find := listed
	if o.watch {
		find = watched
	}
	nodes, pods, err := find(ctx, client, o.schedulerName)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return errors.New("there are no nodes to bind to")
	}
	b := &binder{client: client, events: o.events, name: o.schedulerName, nodes: nodes}
	for range o.workers {
		go func() { cancel(b.work(ctx, pods)) }()
	}
	<-ctx.Done()
	if outer.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}
