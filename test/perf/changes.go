package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/test/support/load"
)

// burstWithChanges is burst while nodes change: changedNodes of them in a second.
const (
	burstWithChanges = "burst+node-changes"
	changedNodes     = 0.01
)

// changeNodes changes nodes until stop is called, which returns how many it changed in a
// second. It does nothing under other loads.
func (t *runner) changeNodes(ctx context.Context) (stop func() (perSecond float64, err error)) {
	if t.load != burstWithChanges {
		return func() (float64, error) { return 0, nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	rate := max(1, changedNodes*float64(t.options.nodes))
	var changed atomic.Int64
	done, began := make(chan error, 1), time.Now()
	go func() {
		_, err := load.AtRate(ctx, int(rate*t.options.limit.Seconds()), t.options.workers, rate, func(ctx context.Context, i int) error {
			err := t.changeNode(ctx, i)
			if err == nil {
				changed.Add(1)
			}
			return err
		})
		done <- err
	}()
	return func() (float64, error) {
		cancel()
		took := time.Since(began).Seconds()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			return 0, fmt.Errorf("changing nodes: %w", err)
		}
		perSecond := float64(changed.Load()) / took
		if perSecond < 0.9*rate {
			return perSecond, fmt.Errorf("%.0f nodes were changed in a second instead of %.0f: the load itself is too slow", perSecond, rate)
		}
		return perSecond, nil
	}
}

// changeNode makes the i-th change: of a label, a taint, a condition or what is allocatable,
// each of a node that has no other of these changes.
func (t *runner) changeNode(ctx context.Context, i int) error {
	node, times := nodeName(i%t.options.nodes), i/t.options.nodes
	kind, patch, subresources := types.MergePatchType, "", []string(nil)
	switch i % t.options.nodes % 4 {
	case 0:
		patch = fmt.Sprintf(`{"metadata":{"labels":{"bench.berth.dev/changed":"%d"}}}`, times)
	case 1:
		patch = fmt.Sprintf(`{"spec":{"taints":[{"key":"bench.berth.dev/changed","value":"%d","effect":"PreferNoSchedule"}]}}`, times)
	case 2:
		kind, subresources = types.StrategicMergePatchType, []string{"status"}
		patch = fmt.Sprintf(`{"status":{"conditions":[{"type":"Changed","status":%q,"reason":"Bench"}]}}`, []string{"True", "False"}[times%2])
	default:
		subresources = []string{"status"}
		patch = fmt.Sprintf(`{"status":{"allocatable":{"memory":"%dMi"}}}`, 32*1024-1-times%1024)
	}
	_, err := t.client.CoreV1().Nodes().Patch(ctx, node, kind, []byte(patch), metav1.PatchOptions{}, subresources...)
	return err
}

// checkRateWithChanges compares the rates while nodes change with those without, Berth's with
// that of the null binder, for which the same API server has the same work.
func (g *group) checkRateWithChanges(alone *group) {
	null := g.keptRates(alone, "null+watch")
	var seen []float64
	for round, part := range g.keptRates(alone, berth) {
		if null[round] > 0 {
			seen = append(seen, part/null[round])
		}
	}
	if len(seen) > 0 {
		g.Criteria = append(g.Criteria, newResult("part of its pods/s that Berth keeps while nodes change, relative to null+watch's", seen, 0.9, false))
	}
}
