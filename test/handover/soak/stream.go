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

// invalidEvery: each tenth change under a stream is invalid.
const invalidEvery = 10

// streamWorkers is the number of workers that create pods at a rate for each worker that
// creates them at once: they wait most of the time.
const streamWorkers = 8

// window is the measurement of a part of the stream, with or without changes.
type window struct {
	// p99 is from the time that a pod was due to its bind; gap is the longest time without
	// a bind.
	p99, gap time.Duration
}

// runStreams creates pods at half the rate of bindAll in windows of --stream: in each round
// one without changes and one with changes.
func (s *testRun) runStreams(ctx context.Context) error {
	rate := s.podsPerSecond / 2
	s.log("a stream of %.0f pods a second, windows of %s", rate, s.options.stream)
	var late, gaps []float64
	for round := range s.options.rounds {
		steady, err := s.runWindow(ctx, fmt.Sprintf("steady-%d", round), rate, 0)
		if err != nil {
			return err
		}
		swaps := s.options.swaps*(round+1)/s.options.rounds - s.options.swaps*round/s.options.rounds
		changing, err := s.runWindow(ctx, fmt.Sprintf("changing-%d", round), rate, swaps)
		if err != nil {
			return err
		}
		late = append(late, changing.p99.Seconds()/steady.p99.Seconds())
		gaps = append(gaps, changing.gap.Seconds()/steady.gap.Seconds())
		s.log("round %d: p99 %s, longest gap %s; with %d changes p99 %s, longest gap %s",
			round+1, millis(steady.p99), millis(steady.gap), swaps, millis(changing.p99), millis(changing.gap))
	}
	s.log("with changes, as a part of without: p99 %s, longest gap between binds %s (at most 2 each)", load.MedianAndRange(late, ""), load.MedianAndRange(gaps, ""))
	return nil
}

// runWindow creates pods at the rate while the profile is changed; the window is longer if
// the changes take longer.
func (s *testRun) runWindow(ctx context.Context, name string, rate float64, swaps int) (window, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		if err := s.editProfile(both, swaps); err != nil {
			cancel(err)
		}
	}()
	dues, err := s.createStream(both, name, rate, changed)
	cancel(err)
	<-changed
	if err != nil {
		return window{}, err
	}
	if err := s.bound.Until(ctx, s.total, s.cp.Running); err != nil {
		return window{}, err
	}
	return s.measure(name, dues), nil
}

// createStream creates pods at the rate for the length of a window and until then is
// closed, and returns when each was due.
func (s *testRun) createStream(ctx context.Context, name string, rate float64, then <-chan struct{}) ([]load.Due, error) {
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

// measure returns the measurement of a window.
func (s *testRun) measure(name string, dues []load.Due) window {
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

// editProfile changes the profile within a window, each tenth time to an invalid spec, and
// waits until each change runs or is rejected.
func (s *testRun) editProfile(ctx context.Context, swaps int) error {
	if swaps == 0 {
		return nil
	}
	// The last tenth of the window is for changes that take longer.
	ticker := time.NewTicker(s.options.stream * 9 / 10 / time.Duration(swaps))
	defer ticker.Stop()
	for range swaps {
		s.edits++
		change := s.applyProfile
		if s.edits%invalidEvery == 0 {
			change = s.applyInvalid
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

// applyInvalid applies an invalid spec and waits until it is rejected.
func (s *testRun) applyInvalid(ctx context.Context, i int) error {
	broken := profileSpec(i)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ran := s.generations[p.Status.Programmed.Generation]; !ran {
		return fmt.Errorf("generation %d runs after a change that is rejected: %+v", p.Status.Programmed.Generation, p.Status.Conditions)
	}
	s.invalidEdits++
	return nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1000) }
