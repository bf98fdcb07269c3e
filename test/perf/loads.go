package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/berth/scheduler/journal"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// probes is how many runs with one pod precede a load.
const probes = 2

// openWorkers is how many times more workers create pods at a fixed rate: they
// wait, for the time and for answers.
const openWorkers = 8

// empty starts the side with one pod to bind: what start-up takes, in time and
// in CPU.
func (t *trial) empty(ctx context.Context) (time.Duration, procs.Usage, error) {
	known := len(t.bound.Binds())
	pod := plain("probe")(known).SchedulerName(profile).Obj()
	if err := t.add(ctx, pod); err != nil {
		return 0, nil, err
	}
	before, err := t.procs().Read()
	if err != nil {
		return 0, nil, err
	}
	began, err := t.start(ctx)
	if err != nil {
		return 0, nil, err
	}
	used, err := t.untilBound(ctx, known+1)
	if err != nil {
		return 0, nil, err
	}
	took := t.bound.Binds()[key(pod)].Seen.Sub(began)
	err = t.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	return took, used.Minus(before), err
}

// forgetLeaders deletes the journal and the Lease, which say that a Berth was there
// before: the next start is measured as a first one.
func (t *trial) forgetLeaders(ctx context.Context) error {
	err := t.client.CoreV1().ConfigMaps(operator.Namespace).Delete(ctx, journal.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = t.client.CoordinationV1().Leases(operator.Namespace).Delete(ctx, operator.Lease, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

// drain lets the side find all pods when it starts: nobody else needs the CPU
// meanwhile.
func (t *trial) drain(ctx context.Context, r *run, empty procs.Usage) error {
	t.end()
	if err := t.forgetLeaders(ctx); err != nil {
		return err
	}
	err := load.Each(ctx, t.pods, t.options.workers, func(ctx context.Context, i int) error {
		return t.add(ctx, t.pod(i))
	})
	if err == nil && t.side.beside != nil {
		err = t.side.beside(ctx, t.stage)
	}
	if err != nil {
		return err
	}
	before, err := t.procs().Read()
	if err != nil {
		return err
	}
	began, err := t.start(ctx)
	if err != nil {
		return err
	}
	stop := t.record(ctx)
	after, err := t.untilBound(ctx, t.known+t.pods)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	first, last := t.span()
	r.Took = last.Sub(began).Seconds() - r.StartUp
	r.Told = t.told.Sub(began).Seconds() - r.StartUp
	return t.finish(ctx, r, after.Minus(before).Minus(empty), last.Sub(first))
}

// crowd creates pods that fit nowhere and waits until each of them was tried,
// which an event of it tells.
func (t *trial) crowd(ctx context.Context) error {
	n := t.options.unfit
	err := load.Each(ctx, n, t.options.workers, func(ctx context.Context, i int) error {
		return t.add(ctx, sized(fmt.Sprintf("unfit-%d", i), "100", "500Mi").SchedulerName(t.serves).Obj())
	})
	if err != nil {
		return err
	}
	before := t.events
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for t.events < before+n {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d were tried: %w", t.events-before, n, context.Cause(ctx))
		}
		if t.events, err = t.countEvents(ctx); err != nil {
			return err
		}
	}
	_, err = t.procs().Settle(ctx, scheduler, t.countEvents)
	return err
}

// flow creates the pods while the side runs.
func (t *trial) flow(ctx context.Context, r *run) error {
	before, err := t.procs().Read()
	if err != nil {
		return err
	}
	stop := t.record(ctx)
	began := time.Now()
	dues, err := t.pour(ctx)
	if err != nil {
		return errors.Join(err, stop())
	}
	after, err := t.untilBound(ctx, t.known+t.pods)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	first, last := t.span()
	r.Took = last.Sub(began).Seconds()
	r.Told = t.told.Sub(began).Seconds()
	if dues != nil {
		r.Latency, r.Late = t.latencies(dues)
	}
	return t.finish(ctx, r, after.Minus(before), last.Sub(first))
}

// pour creates all pods, at once or at the rate.
func (t *trial) pour(ctx context.Context) ([]load.Due, error) {
	do := func(ctx context.Context, i int) error { return t.add(ctx, t.pod(i)) }
	if t.load != "open" {
		return nil, load.Each(ctx, t.pods, t.options.workers, do)
	}
	return load.AtRate(ctx, t.pods, t.options.workers*openWorkers, t.options.rate, do)
}

// latencies are from when each creation was due to when the bind was seen, and
// how late the creations began.
func (t *trial) latencies(dues []load.Due) (latency, late *quantiles) {
	binds := t.bound.Binds()
	var bound, waited []time.Duration
	for i, due := range dues {
		bound = append(bound, binds[key(t.pod(i))].Seen.Sub(due.Due))
		waited = append(waited, due.Late())
	}
	return spread(bound), spread(waited)
}

// span is when the first and the last pod of the load were seen bound.
func (t *trial) span() (first, last time.Time) {
	var seen []time.Time
	for _, bind := range t.bound.Binds() {
		seen = append(seen, bind.Seen)
	}
	slices.SortFunc(seen, time.Time.Compare)
	return seen[t.known], seen[len(seen)-1]
}

// key is how a pod is named among the binds.
func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
