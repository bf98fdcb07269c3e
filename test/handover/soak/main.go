// Command soak creates many pods on a real API server while their profile changes again and
// again. Then it checks that all pods exist and are bound, none was bound twice, no node
// has more than it offers, and each decision is of a generation that ran.
//
//	go run ./test/handover/soak --nodes=500 --pods=2000
//
// With --handovers or --kills it tests handovers instead: see test/handover. With --churn pods
// are created and deleted for a long time, and the manager is sampled:
//
//	go run ./test/handover/soak --churn=40m --json=bin/soak.json
//
// It prints its results and ends with "soak: ok", or with an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/handover"
	"github.com/berthdev/berth/test/support/command"
	"github.com/berthdev/berth/test/support/operator"
)

func main() {
	command.Main("soak", func(ctx context.Context, args []string, out io.Writer) error {
		o, err := parse(args)
		switch {
		case err != nil:
			return err
		case o.handovers+o.kills > 0:
			return runHandovers(ctx, o, out)
		case o.backlog > 0:
			return runBacklog(ctx, o, out)
		case o.churn > 0:
			return runChurn(ctx, o, out)
		}
		return run(ctx, o, out)
	})
}

// kwokLimit is up to how many nodes KWOK runs by default: its heartbeats and status updates
// cost more than the scheduler under test.
const kwokLimit = 1000

// options are the flags.
type options struct {
	nodes, pods, swaps, workers, rounds int
	kwok                                bool
	limit, stream                       time.Duration
	handovers, kills                    int
	backlog, fresh                      int
	released                            bool
	churn                               time.Duration
	swapEvery, total                    int
	json                                string
	lease                               time.Duration
	seed                                uint64
	profile                             string
}

// parse reads the flags. The error has the invalid ones and what they must be.
func parse(args []string) (options, error) {
	var o options
	f := command.Flags("soak")
	f.IntVar(&o.nodes, "nodes", 5000, "nodes, of 4 CPU, 32Gi and 110 pods")
	f.IntVar(&o.pods, "pods", 5000, "pods, half of them by Deployments")
	f.IntVar(&o.swaps, "swaps", 4, "how often the profile is changed while pods are being bound")
	f.DurationVar(&o.stream, "stream", 0, "afterwards, create pods at half the rate that was reached, in windows of this length, and change the profile in every other one, instead of before")
	f.IntVar(&o.rounds, "rounds", 3, "how many pairs of windows a stream has")
	f.IntVar(&o.workers, "workers", 16, "how many workers create pods")
	f.BoolVar(&o.kwok, "kwok", false, fmt.Sprintf("run KWOK for the nodes; the default is true up to %d nodes", kwokLimit))
	f.IntVar(&o.handovers, "handovers", 0, "instead: the number of handovers, in turn from a leader that is killed, frozen, partitioned, that loses its Lease, that ends while its successor's watches lag, or that is killed while its Bindings are delayed")
	f.IntVar(&o.kills, "kills", 0, "as --handovers, but the leader is killed each time")
	f.IntVar(&o.backlog, "backlog", 0, "instead: kill the leader while so many pods of 100 sizes are unschedulable, and measure how long a pod that fits waits for its successor")
	f.BoolVar(&o.released, "released", false, "with --backlog: terminate the leader, which gives its Lease back")
	f.IntVar(&o.fresh, "fresh", 0, "how many pods are created while no process leads, with --backlog")
	f.DurationVar(&o.churn, "churn", 0, fmt.Sprintf("instead: create and delete pods for this long, so that up to --pods exist (by default %d, on %d nodes), and sample the manager", churnPods, churnNodes))
	f.IntVar(&o.swapEvery, "swap-every", 100, "with --churn: change the profile whenever so many further pods are bound; 0: never")
	f.IntVar(&o.total, "total", 0, "with --churn: create so many pods at most; 0: no limit")
	f.StringVar(&o.json, "json", "", "with --churn: write the counts and samples to this file")
	f.DurationVar(&o.lease, "lease", 15*time.Second, "the duration of the Lease in a handover, in whole seconds; leaders are frozen, and watches lag, for times proportional to it: 20 s and 10 s for 15 s")
	f.Uint64Var(&o.seed, "seed", 1, "the seed of the times of handovers")
	f.DurationVar(&o.limit, "limit", 30*time.Minute, "the time limit")
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
	if o.churn > 0 {
		o = o.withChurnDefaults(f)
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
	least("swap-every", o.swapEvery, 0)
	least("total", o.total, 0)
	if o.lease < 3*time.Second || o.lease%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--lease: must be whole seconds, at least 3s, is %s", o.lease))
	}
	if o.churn < 0 {
		errs = append(errs, fmt.Errorf("--churn: must not be less than 0, is %s", o.churn))
	}
	if o.stream < 0 {
		errs = append(errs, fmt.Errorf("--stream: must not be less than 0, is %s", o.stream))
	}
	if o.pods > o.nodes*podsPerNode {
		errs = append(errs, fmt.Errorf("--pods: %d nodes take at most %d pods, not %d", o.nodes, o.nodes*podsPerNode, o.pods))
	}
	if o.limit <= 0 {
		errs = append(errs, fmt.Errorf("--limit: must be more than 0, is %s", o.limit))
	}
	return errors.Join(errs...)
}

// runHandovers causes handovers, and replays the history of the cluster.
func runHandovers(ctx context.Context, o options, out io.Writer) error {
	s := &testRun{options: o, out: out, began: time.Now()}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	env, err := handover.Start(ctx, handover.Options{Manager: path, Lease: o.lease, Seed: o.seed})
	if err != nil {
		return err
	}
	defer env.Stop()
	s.log("one node for %d pods, %d pods, two API servers, two managers, a Lease of %s, seed %d", handover.NodePods, handover.Pods, o.lease, o.seed)
	kinds := slices.Repeat([]handover.Kind{handover.Killed}, o.kills)
	for i := range o.handovers {
		kinds = append(kinds, handover.Kinds[i%len(handover.Kinds)])
	}
	gaps, late, unschedulable := map[handover.Kind][]time.Duration{}, 0, 0
	for i, kind := range kinds {
		h, err := env.HandOver(ctx, kind)
		if err != nil {
			return fmt.Errorf("handover %d of %d: %w", i+1, len(kinds), err)
		}
		gaps[kind], late, unschedulable = append(gaps[kind], h.Gap), late+h.Late, unschedulable+h.Unschedulable
		s.log("handover %d of %d, %s: no bind for %.1f s", i+1, len(kinds), kind, h.Gap.Seconds())
	}
	result, err := env.Check(ctx)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(gaps)) {
		all := slices.Sorted(slices.Values(gaps[kind]))
		s.log("%-11s %3d handovers; no bind for %.1f s (median), %.1f s at most",
			kind, len(all), all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
	}
	s.log("%d Bindings of earlier leaders arrived late, %d of them of pods with PodScheduled=False, and all were rejected; %d Leases were lost without a cause from the test",
		late, unschedulable, env.LostLeases)
	s.log("%s", result)
	if n := len(result.Violations); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// runBacklog causes a handover while many pods are unschedulable.
func runBacklog(ctx context.Context, o options, out io.Writer) error {
	s := &testRun{options: o, out: out, began: time.Now()}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	b, err := handover.RunBacklog(ctx, handover.BacklogOptions{Manager: path, Lease: o.lease, Pods: o.backlog, Shapes: 100, Fresh: o.fresh, Released: o.released})
	if err != nil {
		return err
	}
	s.log("%d unschedulable pods and %d that were created while no process led: %.1f s from the new leader's acquisition of the Lease to the bind of a pod that fits; it fenced %d pods, and wrote to %d of the %d",
		o.backlog, o.fresh, b.Bound.Seconds(), b.Fenced, b.Patched, o.backlog)
	if b.Patched > 0 {
		return fmt.Errorf("%d pods with PodScheduled=False were written to at the handover", b.Patched)
	}
	return nil
}

// profileSpec returns the i-th spec of the profile, which alternates between two scoring
// strategies.
func profileSpec(i int) v1alpha1.SchedulingProfileSpec {
	strategy := []string{"LeastAllocated", "MostAllocated"}[i%2]
	args := fmt.Sprintf(`{"scoringStrategy":{"type":%q,"resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}}`, strategy)
	return v1alpha1.SchedulingProfileSpec{
		PluginConfig: []v1alpha1.PluginArguments{{
			Name: "NodeResourcesFit", Args: &runtime.RawExtension{Raw: []byte(args)},
		}},
		Decisions: v1alpha1.DecisionPolicy{PublishSeconds: new(int32(1))},
	}
}

// applyProfile applies the i-th spec, waits until it runs, and records the generation.
func (s *testRun) applyProfile(ctx context.Context, i int) error {
	if err := operator.ApplyProfile(ctx, s.cp, profile, profileSpec(i)); err != nil {
		return err
	}
	p, err := operator.UntilProgrammed(ctx, s.cp, profile)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generations[p.Generation] = p.Status.Programmed.Hash
	return nil
}

// swapProfile changes the profile when further parts of the pods are bound, so that pods
// are in flight at each change. With a stream the changes are made there instead.
func (s *testRun) swapProfile(ctx context.Context) error {
	if s.options.stream > 0 {
		return nil
	}
	for i := 1; i <= s.options.swaps; i++ {
		if err := s.bound.Until(ctx, s.options.pods*i/(s.options.swaps+1), s.cp.Running); err != nil {
			return err
		}
		bound, began := len(s.bound.Binds()), time.Now()
		if err := s.applyProfile(ctx, i); err != nil {
			return err
		}
		s.log("swap %d of %d with %d pods bound: it runs %.2f s later, with %d bound", i, s.options.swaps,
			bound, time.Since(began).Seconds(), len(s.bound.Binds()))
	}
	return nil
}
