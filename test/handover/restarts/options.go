package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/test/support/command"
)

// podsANode is how many pods a node takes.
const podsANode = 110

// options are the flags.
type options struct {
	nodes, restarts int
	rate            float64
	still, limit    time.Duration
}

// parse reads the flags. The error says which one is wrong and what would be
// right.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("restarts")
	f.IntVar(&o.nodes, "nodes", 500, "nodes, of 110 pods each")
	f.IntVar(&o.restarts, "restarts", 20, "how often the manager that leads is replaced")
	f.Float64Var(&o.rate, "rate", 50, "pods that come a second")
	f.DurationVar(&o.still, "still", 10*time.Second, "how long pods come before the first restart, and after the last")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "how long it may take")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	var errs []error
	for flag, value := range map[string]float64{
		"nodes": float64(o.nodes), "restarts": float64(o.restarts), "rate": o.rate, "still": o.still.Seconds(), "limit": o.limit.Seconds(),
	} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s: must be more than 0, is %s", flag, f.Lookup(flag).Value))
		}
	}
	return o, errors.Join(errs...)
}
