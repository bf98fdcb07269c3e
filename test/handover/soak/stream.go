package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// breakEvery is which of the changes under a stream are broken.
const breakEvery = 10

// streamWorkers is how many workers create pods at a rate, for each that
// creates them at once: they wait, for the time and for answers.
const streamWorkers = 8

// window is a part of the stream, with or without changes beside it.
type window struct {
	// p99 is from when a pod was due to when it was seen bound; gap is the
	// longest time in which none was.
	p99, gap time.Duration
}

// streams lets pods come at half the rate that the storm reached, in windows of
// --stream each: one while nothing changes, one while the profile does, as often
// as there are rounds. The changes are parted among the rounds.
func (s *soak) streams(ctx context.Context) error {
	rate := s.reached / 2
	s.say("a stream of %.0f pods a second, windows of %s", rate, s.options.stream)
	var late, gaps []float64
	for round := range s.options.rounds {
		still, err := s.window(ctx, fmt.Sprintf("still-%d", round), rate, 0)
		if err != nil {
			return err
		}
		swaps := s.options.swaps*(round+1)/s.options.rounds - s.options.swaps*round/s.options.rounds
		moving, err := s.window(ctx, fmt.Sprintf("moving-%d", round), rate, swaps)
		if err != nil {
			return err
		}
		late = append(late, moving.p99.Seconds()/still.p99.Seconds())
		gaps = append(gaps, moving.gap.Seconds()/still.gap.Seconds())
		s.say("round %d: p99 %s, longest gap %s; with %d changes p99 %s, longest gap %s",
			round+1, millis(still.p99), millis(still.gap), swaps, millis(moving.p99), millis(moving.gap))
	}
	s.say("with changes, as a part of without: p99 %s, longest gap between binds %s (at most 2 each)", spread(late), spread(gaps))
	return nil
}

// window lets pods come at the rate while the profile changes so many times; it
// is as much longer as the changes take.
func (s *soak) window(ctx context.Context, name string, rate float64, swaps int) (window, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		if err := s.edit(both, swaps); err != nil {
			cancel(err)
		}
	}()
	dues, err := s.pour(both, name, rate, changed)
	cancel(err)
	<-changed
	if err != nil {
		return window{}, err
	}
	if err := s.bound.Until(ctx, s.total, s.cp.Running); err != nil {
		return window{}, err
	}
	return s.seen(name, dues), nil
}

// pour creates pods at the rate, for as long as a window is and until then is
// closed, and says when each was due.
func (s *soak) pour(ctx context.Context, name string, rate float64, then <-chan struct{}) ([]load.Due, error) {
	var dues []load.Due
	for length := s.options.stream; ; length = time.Second {
		more, err := load.AtRate(ctx, int(rate*length.Seconds())+1, s.options.workers*streamWorkers, rate, func(ctx context.Context, i int) error {
			return s.create(ctx, fmt.Sprintf("%s-%d", name, len(dues)+i))
		})
		if err != nil {
			return nil, err
		}
		dues, s.total = append(dues, more...), s.total+len(more)
		select {
		case <-then:
			return dues, context.Cause(ctx)
		default:
		}
	}
}

// seen is what came of the pods of a window.
func (s *soak) seen(name string, dues []load.Due) window {
	binds := s.bound.Binds()
	waited, at := make([]time.Duration, len(dues)), make([]time.Time, len(dues))
	for i, due := range dues {
		at[i] = binds[fmt.Sprintf("%s/%s-%d", namespace, name, i)].Seen
		waited[i] = at[i].Sub(due.Due)
	}
	slices.Sort(waited)
	slices.SortFunc(at, time.Time.Compare)
	w := window{p99: waited[(len(waited)*99+99)/100-1]}
	for i := 1; i < len(at); i++ {
		w.gap = max(w.gap, at[i].Sub(at[i-1]))
	}
	return w
}

// edit changes the profile so many times within a window, each tenth time to
// something that is refused, and waits until each change runs, or is.
func (s *soak) edit(ctx context.Context, swaps int) error {
	if swaps == 0 {
		return nil
	}
	// The last tenth of the window is for those that took longer.
	ticker := time.NewTicker(s.options.stream * 9 / 10 / time.Duration(swaps))
	defer ticker.Stop()
	for range swaps {
		s.edits++
		change := s.apply
		if s.edits%breakEvery == 0 {
			change = s.spoil
		}
		if err := change(ctx, s.edits); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// spoil makes the profile something that is refused, and waits until it is.
func (s *soak) spoil(ctx context.Context, i int) error {
	broken := spec(i)
	broken.Plugins = &v1alpha1.Plugins{Score: v1alpha1.PluginSet{Enabled: []v1alpha1.EnabledPlugin{{Name: "NodeResourceFit"}}}}
	if err := operator.ApplyProfile(ctx, s.cp, profile, broken); err != nil {
		return err
	}
	p, err := operator.UntilProfile(ctx, s.cp, profile, "is refused", func(p *v1alpha1.SchedulingProfile) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, string(v1alpha1.ConditionAccepted))
		return c != nil && c.Status == metav1.ConditionFalse && c.ObservedGeneration == p.Generation
	})
	if err != nil {
		return err
	}
	if _, ran := s.generations[p.Status.Programmed.Generation]; !ran {
		return fmt.Errorf("generation %d runs after a change that is refused: %+v", p.Status.Programmed.Generation, p.Status.Conditions)
	}
	s.broken++
	return nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }

// spread prints ratios: the median, with the least and the most.
func spread(ratios []float64) string {
	sorted := slices.Sorted(slices.Values(ratios))
	n := len(sorted)
	text := fmt.Sprintf("%.2f", (sorted[(n-1)/2]+sorted[n/2])/2)
	if n > 1 {
		text += fmt.Sprintf(" (%.2f to %.2f)", sorted[0], sorted[n-1])
	}
	return text
}
