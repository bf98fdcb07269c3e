package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthdev/berth/test/support/load"
)

// inTurns says whether a load is that of turns.
func inTurns(load string) bool { return strings.HasPrefix(load, "turns") }

// turns has the sides, which are profiles of Berth, do the same at the same time, each
// on a control plane that stands still while another side has its turn: what the
// machine does meanwhile meets all of them alike. Two control planes that were set up
// alike still differ by some percent for as long as they run: each round has new ones,
// and without a crowd each side goes over all of them.
func (b *bench) turns(ctx context.Context, sh shape, entrants []side, g *group) error {
	for round := 1; round <= b.options.rounds; round++ {
		began := time.Now()
		runs, err := b.round(ctx, sh, entrants, g, round)
		if err != nil {
			return fmt.Errorf("%s, %s, round %d: %w", sh.name, g.Load, round, err)
		}
		for _, e := range entrants {
			r := whole(e.name, runs)
			g.Runs = append(g.Runs, r)
			b.tell(r, began)
		}
		slices.Reverse(entrants)
	}
	return nil
}

// round is one of turns.
func (b *bench) round(ctx context.Context, sh shape, entrants []side, g *group, number int) ([]run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	places := len(entrants)
	if g.Unfit > 0 {
		places = 1 // what is said of a crowd is not unsaid within minutes
	}
	var rivals []*rival
	for i := range entrants {
		r, err := b.rival(ctx, sh, entrants)
		if err != nil {
			return nil, err
		}
		defer r.leave()
		r.load, r.round, r.pods = g.Load, number, max(1, g.Pods/places)
		r.plays(entrants[i])
		if g.Unfit > 0 {
			if err := r.crowd(ctx); err != nil {
				return nil, err
			}
		}
		rivals = append(rivals, r)
	}
	runs, err := bout(ctx, rivals)
	for shift := 1; shift < places && err == nil; shift++ {
		var more []run
		more, err = another(ctx, rivals, func(i int) side { return entrants[(i+shift)%places] })
		runs = append(runs, more...)
	}
	return runs, err
}

// another is a bout after one that took place, of other sides.
func another(ctx context.Context, rivals []*rival, who func(i int) side) ([]run, error) {
	err := load.Each(ctx, len(rivals), len(rivals), func(ctx context.Context, i int) error {
		if err := rivals[i].clear(ctx); err != nil {
			return fmt.Errorf("%s: %w", rivals[i].side.name, err)
		}
		rivals[i].plays(who(i))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bout(ctx, rivals)
}

// bout has each rival bind the pods of its side once.
func bout(ctx context.Context, rivals []*rival) (runs []run, err error) {
	for _, r := range rivals {
		if err := r.prepare(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.side.name, err)
		}
		defer r.bound.Stop()
	}
	if err := alternate(ctx, rivals); err != nil {
		return nil, err
	}
	for _, r := range rivals {
		run, err := r.result(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.side.name, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// alternate gives the rivals their turns until the pods of all are bound. All run
// before it, and after.
func alternate(ctx context.Context, rivals []*rival) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for _, r := range rivals {
		defer r.resume() // who has ended is missed by whom it was to answer
		if err := r.halt(); err != nil {
			return err
		}
	}
	for _, r := range rivals {
		go r.work(ctx, fail)
	}
	for left := slices.Clone(rivals); len(left) > 0; left = slices.DeleteFunc(left, (*rival).finished) {
		for _, r := range left {
			if err := r.takeTurn(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// whole is what one side did in a round, as one run.
func whole(side string, runs []run) run {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.Side != side })
	all, n := runs[0], float64(len(runs))
	all.Pods, all.Took, all.BindsPerSecond, all.EventsPerPod = 0, 0, 0, 0
	all.CPU, all.Peak = map[string]float64{}, map[string]float64{}
	for _, r := range runs {
		all.Pods += r.Pods
		all.Took += r.Took
		all.BindsPerSecond += r.BindsPerSecond / n
		all.EventsPerPod += r.EventsPerPod / n
		for name := range r.CPU {
			all.CPU[name] += r.CPU[name] / n
		}
		for name := range r.Peak {
			all.Peak[name] = max(all.Peak[name], r.Peak[name])
		}
	}
	all.PodsPerSecond = float64(all.Pods) / all.Took
	return all
}
