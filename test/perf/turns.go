package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/test/load"
	"github.com/berthdev/berth/test/operator"
)

// turns has the sides take turns on one control plane, as profiles of one Berth: a
// small difference between them is seen that two control planes, one after the
// other on a busy machine, would hide. The pods of a turn are gone before the next
// one, and the first turn of each side does not count.
func (b *bench) turns(ctx context.Context, sh shape, entrants []side, g *group) error {
	s, err := b.set(ctx, sh)
	if err != nil {
		return err
	}
	defer s.cp.Stop()
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	for _, e := range entrants {
		if err := operator.ApplyProfile(ctx, s.cp, e.name, explaining(e.explain)); err != nil {
			return err
		}
	}
	process, err := startBerth(ctx, s)
	if err != nil {
		return err
	}
	for round := range b.options.rounds + 1 {
		for _, e := range entrants {
			t := &trial{stage: s, shape: sh, side: e, load: g.Load, round: round, pods: g.Pods, serves: e.name, process: process}
			began := time.Now()
			r, err := t.turn(ctx)
			if err != nil {
				return fmt.Errorf("%s, %s, round %d, %s: %w", sh.name, g.Load, round, e.name, err)
			}
			if round > 0 {
				g.Runs = append(g.Runs, r)
				b.tell(r, began)
			}
		}
		slices.Reverse(entrants)
	}
	return nil
}

// turn measures one burst of one side, and takes its pods away.
func (t *trial) turn(ctx context.Context) (run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.options.limit, fmt.Errorf("--limit %s is over", t.options.limit))
	defer cancel()
	r := run{Shape: t.shape.name, Load: t.load, Side: t.side.name, Round: t.round, Pods: t.pods}
	var err error
	if t.bound, err = load.WatchBound(ctx, t.client, t.serves); err != nil {
		return r, err
	}
	defer t.bound.Stop()
	if t.events, err = t.countEvents(ctx); err != nil {
		return r, err
	}
	if err := t.flow(ctx, &r); err != nil {
		return r, err
	}
	return r, t.clear(ctx)
}

// clear deletes the pods, and waits until they are gone and Berth is idle.
func (t *trial) clear(ctx context.Context) error {
	pods := t.client.CoreV1().Pods(namespace)
	ours := metav1.ListOptions{FieldSelector: "spec.schedulerName=" + t.serves}
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, ours); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left, err := pods.List(ctx, metav1.ListOptions{FieldSelector: ours.FieldSelector, Limit: 1})
		return err == nil && len(left.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the pods are gone: %w", err)
	}
	_, err = t.procs().Settle(ctx, scheduler, t.countEvents)
	return err
}
