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

// startUpRuns is the number of runs with one pod before a load.
const startUpRuns = 2

// openWorkers multiplies the number of workers at a fixed rate: they wait for their time and
// for responses.
const openWorkers = 8

// measureStartUp starts the side with one pod to bind, and returns the time and the CPU time
// of the start-up.
func (t *runner) measureStartUp(ctx context.Context) (time.Duration, procs.Usage, error) {
	known := len(t.bound.Binds())
	pod := plain("probe")(known).SchedulerName(profile).Obj()
	if err := t.createPod(ctx, pod); err != nil {
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
	if t.idle, err = t.count(ctx); err != nil {
		return 0, nil, err
	}
	took := t.bound.Binds()[key(pod)].Seen.Sub(began)
	err = t.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	return took, used.Minus(before), err
}

// deleteLeaderState deletes the journal and the Lease of earlier leaders: the next start is
// measured as a first one.
func (t *runner) deleteLeaderState(ctx context.Context) error {
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

// prepareDrain ends the side and creates all pods.
func (t *runner) prepareDrain(ctx context.Context) error {
	t.end()
	if err := t.deleteLeaderState(ctx); err != nil {
		return err
	}
	err := t.each(ctx, t.pods, t.createNext)
	if err == nil && t.side.background != nil {
		err = t.side.background(ctx, t.testEnv)
	}
	return err
}

// drain creates all pods before the side starts, so that nothing else uses the CPU meanwhile.
func (t *runner) drain(ctx context.Context, r *run, empty procs.Usage) error {
	if err := t.prepareDrain(ctx); err != nil {
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
	after, err := t.untilBound(ctx, t.boundBefore+t.pods)
	if err := errors.Join(err, stop(r)); err != nil {
		return err
	}
	first, last := t.firstAndLast()
	r.Took = last.Sub(began).Seconds() - r.StartUp
	r.ToLastEvent = t.lastEventAt.Sub(began).Seconds() - r.StartUp
	return t.finish(ctx, r, after.Minus(before).Minus(empty), last.Sub(first))
}

// createUnfit creates pods that fit no node and waits until each was attempted, by counting
// their Events.
func (t *runner) createUnfit(ctx context.Context) error {
	n := t.options.unfit
	err := load.Each(ctx, n, t.options.workers, func(ctx context.Context, i int) error {
		return t.createPod(ctx, sized(fmt.Sprintf("unfit-%d", i), "100", "500Mi").SchedulerName(t.schedulerName).Obj())
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
			return fmt.Errorf("%d of %d were attempted: %w", t.events-before, n, context.Cause(ctx))
		}
		if t.events, err = t.countEvents(ctx); err != nil {
			return err
		}
	}
	_, err = t.procs().Settle(ctx, scheduler, t.countEvents)
	return err
}

// flow creates the pods while the side runs.
func (t *runner) flow(ctx context.Context, r *run) error {
	before, err := t.procs().Read()
	if err != nil {
		return err
	}
	stop, stopChanges := t.record(ctx), t.changeNodes(ctx)
	began := time.Now()
	dues, err := t.createPods(ctx)
	if err == nil {
		err = t.bound.Until(ctx, t.boundBefore+t.pods, t.cp.Running)
	}
	var changesErr error
	r.NodeChanges, changesErr = stopChanges()
	if err := errors.Join(err, changesErr); err != nil {
		return errors.Join(err, stop(r))
	}
	after, err := t.untilBound(ctx, t.boundBefore+t.pods)
	if err := errors.Join(err, stop(r)); err != nil {
		return err
	}
	first, last := t.firstAndLast()
	r.Took = last.Sub(began).Seconds()
	r.ToLastEvent = t.lastEventAt.Sub(began).Seconds()
	if dues != nil {
		r.Latency, r.Late = t.latencies(dues)
	}
	return t.finish(ctx, r, after.Minus(before), last.Sub(first))
}

// createPods creates all pods, at once or at the rate.
func (t *runner) createPods(ctx context.Context) ([]load.Due, error) {
	if t.load != "open" {
		return nil, t.each(ctx, t.pods, t.createNext)
	}
	return load.AtRate(ctx, t.pods, t.options.workers*openWorkers, t.options.rate, t.createNext)
}

// latencies are the times from when each creation was due to the observed bind, and the delays
// of the creations.
func (t *runner) latencies(dues []load.Due) (latency, late *quantiles) {
	binds := t.bound.Binds()
	var bound, waited []time.Duration
	for i, due := range dues {
		if t.shape.gangs != nil && t.shape.gangs.single > 0 && t.shape.gangs.of(i) != "" {
			continue
		}
		bound = append(bound, binds[key(t.pod(i))].Seen.Sub(due.Due))
		waited = append(waited, due.Late())
	}
	return quantilesOf(bound), quantilesOf(waited)
}

// firstAndLast are the times of the first and the last bind of the load.
func (t *runner) firstAndLast() (first, last time.Time) {
	var seen []time.Time
	for _, bind := range t.bound.Binds() {
		seen = append(seen, bind.Seen)
	}
	slices.SortFunc(seen, time.Time.Compare)
	return seen[t.boundBefore], seen[len(seen)-1]
}

// key is a pod's key among the binds.
func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
