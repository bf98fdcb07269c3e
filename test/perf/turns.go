package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/berthdev/berth/test/load"
)

// turns has the sides, which are profiles of Berth, do the same at the same time, each
// on a control plane that stands still while another side has its turn: what the
// machine does meanwhile meets all of them alike. And since two control planes that
// were set up alike still differ by some percent, for as long as they run, each side
// goes over all of them in every round. So a difference is seen that is smaller than
// what either would hide. The first round does not count.
func (b *bench) turns(ctx context.Context, sh shape, entrants []side, g *group) error {
	var rivals []*rival
	defer func() {
		for _, r := range rivals {
			r.leave()
		}
	}()
	for range entrants {
		r, err := b.rival(ctx, sh, entrants)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", sh.name, g.Load, err)
		}
		rivals = append(rivals, r)
	}
	for round := range b.options.rounds + 1 {
		began := time.Now()
		var runs []run
		for shift := range entrants {
			for i, r := range rivals {
				r.plays(entrants[(i+shift)%len(entrants)], g, round)
			}
			some, err := b.bout(ctx, rivals)
			if err != nil {
				return fmt.Errorf("%s, %s, round %d: %w", sh.name, g.Load, round, err)
			}
			runs = append(runs, some...)
		}
		if round > 0 {
			for _, e := range entrants {
				r := whole(e.name, runs)
				g.Runs = append(g.Runs, r)
				b.tell(r, began)
			}
		}
	}
	return nil
}

// bout has each rival bind the pods of its side once, and takes them away.
func (b *bench) bout(ctx context.Context, rivals []*rival) ([]run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	for _, r := range rivals {
		if err := r.prepare(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.side.name, err)
		}
		defer r.bound.Stop()
	}
	if err := alternate(ctx, rivals); err != nil {
		return nil, err
	}
	runs := make([]run, len(rivals))
	err := load.Each(ctx, len(rivals), len(rivals), func(ctx context.Context, i int) (err error) {
		if runs[i], err = rivals[i].result(ctx); err == nil {
			err = rivals[i].clear(ctx)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", rivals[i].side.name, err)
		}
		return err
	})
	return runs, err
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
