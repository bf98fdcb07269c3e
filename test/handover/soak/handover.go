package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/berthdev/berth/test/handover"
	"github.com/berthdev/berth/test/support/operator"
)

// takeovers has one manager take over from another, again and again, and then
// replays what the cluster went through.
func takeovers(ctx context.Context, o options, out io.Writer) error {
	s := &soak{options: o, out: out, began: time.Now()}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	stage, err := handover.Start(ctx, handover.Options{Manager: path, Lease: o.lease, Seed: o.seed})
	if err != nil {
		return err
	}
	defer stage.Stop()
	s.say("one node of %d places, %d pods, two API servers, two managers, a Lease of %s, seed %d", handover.Places, handover.Pods, o.lease, o.seed)
	kinds := slices.Repeat([]handover.Kind{handover.Killed}, o.kills)
	for i := range o.handovers {
		kinds = append(kinds, handover.Kinds[i%len(handover.Kinds)])
	}
	gaps, late, refused := map[handover.Kind][]time.Duration{}, 0, 0
	for i, kind := range kinds {
		h, err := stage.HandOver(ctx, kind)
		if err != nil {
			return fmt.Errorf("handover %d of %d: %w", i+1, len(kinds), err)
		}
		gaps[kind], late, refused = append(gaps[kind], h.Gap), late+h.Late, refused+h.Refused
		s.say("handover %d of %d, %s: nothing was bound for %.1f s", i+1, len(kinds), kind, h.Gap.Seconds())
	}
	verdict, err := stage.Check(ctx)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(gaps)) {
		all := slices.Sorted(slices.Values(gaps[kind]))
		s.say("%-8s %3d handovers; nothing was bound for %.1f s in the middle, %.1f s at most",
			kind, len(all), all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
	}
	s.say("%d Bindings of earlier leaders arrived late, %d of them of pods that carried PodScheduled=False, and all failed; %d Leases were lost unasked",
		late, refused, stage.Unasked)
	s.say("%s", verdict)
	if n := len(verdict.Violations) + len(verdict.Unsettled); n > 0 {
		return fmt.Errorf("%d violations", n)
	}
	return nil
}

// backlog has one manager take over from another while pods wait that fit nowhere.
func backlog(ctx context.Context, o options, out io.Writer) error {
	s := &soak{options: o, out: out, began: time.Now()}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	b, err := handover.RunBacklog(ctx, handover.BacklogOptions{Manager: path, Lease: o.lease, Pods: o.backlog, Shapes: 100, Fresh: o.fresh})
	if err != nil {
		return err
	}
	s.say("%d pods that fit nowhere and %d that came while nobody led: %.1f s from when the new leader got the Lease to the bind of a pod that fits; it wrote to %d of the %d",
		o.backlog, o.fresh, b.Bound.Seconds(), b.Patched, o.backlog)
	if b.Patched > 0 {
		return fmt.Errorf("%d pods with PodScheduled=False were written to at the handover", b.Patched)
	}
	return nil
}
