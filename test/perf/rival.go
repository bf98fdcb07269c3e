package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// stint is how long a turn is: short beside what else happens on a shared machine,
// and long beside the intervals in which Berth spaces out what is not urgent, since
// clocks go on while it stands still.
const stint = time.Second

// rival is a Berth with all profiles, on a control plane that stands still between its
// turns, and the trial of the side that has it.
type rival struct {
	*trial
	// before and after is what was used by when its first turn began, and when its
	// last one ended.
	before, after procs.Usage
	own           ownTime
	// ready is closed when all pods are bound.
	ready chan struct{}
}

// rival sets one up. It runs, and so do the profiles.
func (b *bench) rival(ctx context.Context, sh shape, entrants []side) (*rival, error) {
	s, err := b.set(ctx, sh)
	if err != nil {
		return nil, err
	}
	r := &rival{trial: &trial{stage: s, shape: sh}}
	if err := r.enter(ctx, entrants); err != nil {
		r.leave()
		return nil, err
	}
	return r, nil
}

// enter starts Berth with the profiles of all entrants.
func (r *rival) enter(ctx context.Context, entrants []side) (err error) {
	if err := operator.Install(ctx, r.cp); err != nil {
		return err
	}
	for _, e := range entrants {
		if err := operator.ApplyProfile(ctx, r.cp, e.name, explaining(e.explain)); err != nil {
			return err
		}
	}
	if r.process, err = startBerth(ctx, r.stage); err != nil {
		return err
	}
	for _, e := range entrants {
		if _, err := operator.UntilProgrammed(ctx, r.cp, e.name); err != nil {
			return err
		}
	}
	return nil
}

// leave ends all that the rival is, also when it stands still: only who runs hears
// that it is asked to end.
func (r *rival) leave() {
	_ = r.resume() // an error means that it has ended
	r.cp.Stop()
}

// resume and halt have all of the rival's processes run, and stand still.
func (r *rival) resume() error { return r.cp.Signal(syscall.SIGCONT) }
func (r *rival) halt() error   { return r.cp.Signal(syscall.SIGSTOP) }

// plays gives it to a side.
func (r *rival) plays(sd side) {
	r.side, r.serves, r.own, r.ready = sd, sd.name, nil, make(chan struct{})
}

// prepare waits until Berth is idle, and notes where a bout begins.
func (r *rival) prepare(ctx context.Context) (err error) {
	if r.before, err = r.procs().Settle(ctx, scheduler, r.countEvents); err != nil {
		return err
	}
	if r.events, err = r.countEvents(ctx); err != nil {
		return err
	}
	r.bound, err = load.WatchBound(ctx, r.client, r.serves)
	return err
}

// work creates the pods and waits until they are bound.
func (r *rival) work(ctx context.Context, fail func(error)) {
	_, err := r.pour(ctx)
	if err == nil {
		err = r.bound.Until(ctx, r.pods, r.cp.Running)
	}
	if err != nil {
		fail(fmt.Errorf("%s: %w", r.side.name, err))
		return
	}
	close(r.ready)
}

// takeTurn runs for a stint, or until all pods are bound.
func (r *rival) takeTurn(ctx context.Context) error {
	turn := span{from: time.Now()}
	if err := r.resume(); err != nil {
		return err
	}
	timer := time.NewTimer(stint)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := r.halt()
	turn.to = time.Now()
	r.own = append(r.own, turn)
	if err == nil {
		r.after, err = r.procs().Read()
	}
	return err
}

// finished says whether all pods are bound.
func (r *rival) finished() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// result is the run in the rival's own time, and what it used by the end of that.
// What it has to do after the last bind it does now.
func (r *rival) result(ctx context.Context) (run, error) {
	result := r.blank()
	used := r.after.Minus(r.before)
	delete(used, harness) // it works for all of them
	if _, err := r.procs().Settle(ctx, scheduler, r.countEvents); err != nil {
		return result, errors.Join(r.cp.Running(), err)
	}
	first, last := r.span()
	result.Took = r.own.until(last).Seconds()
	return result, r.finish(ctx, &result, used, r.own.until(last)-r.own.until(first))
}

// clear deletes the pods, and waits until they and what was said of them are gone.
func (r *rival) clear(ctx context.Context) error {
	pods := r.client.CoreV1().Pods(namespace)
	ours := metav1.ListOptions{FieldSelector: "spec.schedulerName=" + r.serves}
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, ours); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left, err := pods.List(ctx, metav1.ListOptions{FieldSelector: ours.FieldSelector, Limit: 1})
		if err != nil || len(left.Items) > 0 {
			return false, err
		}
		explained, err := r.explained(ctx)
		return !explained, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the pods are gone: %w", err)
	}
	return nil
}

// explained says whether there is a SchedulingDecision.
func (r *rival) explained(ctx context.Context) (bool, error) {
	text, err := r.client.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "schedulingdecisions").
		Param("limit", "1").DoRaw(ctx)
	if err != nil {
		return false, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(text, &list)
	return len(list.Items) > 0, err
}
