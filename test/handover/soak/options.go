package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/berthdev/berth/test/support/command"
)

// kwokLimit is up to how many nodes KWOK plays the kubelets by itself: its
// heartbeats and the pods' status cost more than the scheduler under test.
const kwokLimit = 1000

// options are the flags.
type options struct {
	nodes, pods, swaps, workers, rounds int
	kwok                                bool
	limit, stream                       time.Duration
	handovers, kills                    int
	backlog, fresh                      int
	lease                               time.Duration
	seed                                uint64
	profile                             string
}

// parse reads the flags. The error says which one is wrong and what would be
// right.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("soak")
	f.IntVar(&o.nodes, "nodes", 5000, "nodes, of 4 CPU, 32Gi and 110 pods")
	f.IntVar(&o.pods, "pods", 5000, "pods, half of them by Deployments")
	f.IntVar(&o.swaps, "swaps", 4, "how often the profile is changed while pods are being bound")
	f.DurationVar(&o.stream, "stream", 0, "afterwards, let pods come at half the rate that was reached, in windows of this length, and change the profile in every other one; the --swaps are made there then")
	f.IntVar(&o.rounds, "rounds", 3, "how many pairs of windows a stream has")
	f.IntVar(&o.workers, "workers", 16, "how many workers create pods")
	f.BoolVar(&o.kwok, "kwok", false, fmt.Sprintf("let KWOK play the kubelets; the default is true up to %d nodes", kwokLimit))
	f.IntVar(&o.handovers, "handovers", 0, "instead of all that: so many times a manager takes over from another, by turns from one that is killed, frozen, cut off, robbed of its Lease, told to end while the other's watches lag, or killed while its Bindings are on their way")
	f.IntVar(&o.kills, "kills", 0, "as --handovers, but the leader is killed each time")
	f.IntVar(&o.backlog, "backlog", 0, "instead of all that: kill the leader over so many pods of 100 shapes that fit nowhere, and look at how long a pod that fits waits for its successor")
	f.IntVar(&o.fresh, "fresh", 0, "how many pods come while nobody leads, with --backlog")
	f.DurationVar(&o.lease, "lease", 15*time.Second, "how long a Lease lasts in a handover, in whole seconds; for how long leaders are frozen, and watches lag, goes by it: 20 s and 10 s for one of 15 s")
	f.Uint64Var(&o.seed, "seed", 1, "what decides about when handovers happen")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "how long it may take")
	f.StringVar(&o.profile, "cpu-profile", "", "write a CPU profile of the manager's first ten seconds under load to this file")
	if err := command.Parse(f, args); err != nil {
		return o, err
	}
	if !f.Changed("kwok") {
		o.kwok = o.nodes <= kwokLimit
	}
	if n := o.handovers + o.kills; n > 0 && !f.Changed("limit") {
		o.limit = 10*time.Minute + time.Duration(n)*(3*o.lease+time.Minute)
	}
	return o, o.validate()
}

func (o options) validate() error {
	var errs []error
	least := func(flag string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("--%s: must be at least %d, is %d", flag, least, value))
		}
	}
	least("nodes", o.nodes, 1)
	least("pods", o.pods, 2)
	least("swaps", o.swaps, 0)
	least("workers", o.workers, 1)
	least("rounds", o.rounds, 1)
	least("handovers", o.handovers, 0)
	least("kills", o.kills, 0)
	least("backlog", o.backlog, 0)
	least("fresh", o.fresh, 0)
	if o.lease < 3*time.Second || o.lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--lease: must be whole seconds, at least 3s, is %s", o.lease))
	}
	if o.stream < 0 {
		errs = append(errs, fmt.Errorf("--stream: must not be less than 0, is %s", o.stream))
	}
	if o.pods > o.nodes*podsANode {
		errs = append(errs, fmt.Errorf("--pods: %d nodes take at most %d pods, not %d", o.nodes, o.nodes*podsANode, o.pods))
	}
	if o.limit <= 0 {
		errs = append(errs, fmt.Errorf("--limit: must be more than 0, is %s", o.limit))
	}
	return errors.Join(errs...)
}
