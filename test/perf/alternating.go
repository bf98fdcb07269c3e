package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// isAlternating says whether the sides alternate under a load.
func isAlternating(load string) bool { return strings.HasPrefix(load, "alternating") }

// alternating has the sides, which are profiles of Berth, bind the same pods at the same time,
// each on a control plane that is stopped while another side runs: disturbances of the machine
// affect all of them alike. Two control planes that were set up alike differ by some percent
// for as long as they run: each round has new ones, and without unfit pods each side runs on
// all of them.
func (b *bench) alternating(ctx context.Context, sh shape, sides []side, g *group) error {
	for round := 1; round <= b.options.rounds; round++ {
		began := time.Now()
		runs, err := b.round(ctx, sh, sides, g, round)
		if err != nil {
			return fmt.Errorf("%s, %s, round %d: %w", sh.name, g.Load, round, err)
		}
		for _, e := range sides {
			r := mergeRuns(e.name, runs)
			g.Runs = append(g.Runs, r)
			b.printRun(r, began)
		}
		slices.Reverse(sides)
	}
	return nil
}

// round is one round of alternating sides.
func (b *bench) round(ctx context.Context, sh shape, sides []side, g *group, number int) ([]run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	places := len(sides)
	if g.Unfit > 0 {
		places = 1 // explanations of that many unfit pods take minutes to be deleted
	}
	var participants []*participant
	for i := range sides {
		r, err := b.participant(ctx, sh, sides)
		if err != nil {
			return nil, err
		}
		defer r.stop()
		r.load, r.round, r.pods = g.Load, number, max(1, g.Pods/places)
		r.assign(sides[i])
		if g.Unfit > 0 {
			if err := r.createUnfit(ctx); err != nil {
				return nil, err
			}
		}
		participants = append(participants, r)
	}
	runs, err := measureOnce(ctx, participants)
	for shift := 1; shift < places && err == nil; shift++ {
		var more []run
		more, err = measureAgain(ctx, participants, func(i int) side { return sides[(i+shift)%places] })
		runs = append(runs, more...)
	}
	return runs, err
}

// measureAgain is measureOnce with other sides.
func measureAgain(ctx context.Context, participants []*participant, who func(i int) side) ([]run, error) {
	err := load.Each(ctx, len(participants), len(participants), func(ctx context.Context, i int) error {
		if err := participants[i].clear(ctx); err != nil {
			return fmt.Errorf("%s: %w", participants[i].side.name, err)
		}
		participants[i].assign(who(i))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return measureOnce(ctx, participants)
}

// measureOnce has each participant bind the pods of its side once.
func measureOnce(ctx context.Context, participants []*participant) (runs []run, err error) {
	for _, r := range participants {
		if err := r.prepare(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.side.name, err)
		}
		defer r.bound.Stop()
	}
	if err := alternate(ctx, participants); err != nil {
		return nil, err
	}
	for _, r := range participants {
		run, err := r.result(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.side.name, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// alternate runs the participants in turns until the pods of all are bound. All run before it,
// and after.
func alternate(ctx context.Context, participants []*participant) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for _, r := range participants {
		defer r.resume() // an error means that it has ended, which its caller notices
		if err := r.pause(); err != nil {
			return err
		}
	}
	for _, r := range participants {
		go r.work(ctx, fail)
	}
	for left := slices.Clone(participants); len(left) > 0; left = slices.DeleteFunc(left, (*participant).finished) {
		for _, r := range left {
			if err := r.takeTurn(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeRuns merges the runs of one side in a round.
func mergeRuns(side string, runs []run) run {
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

// turnLength is short compared with disturbances on a shared machine, and long compared with
// the intervals of Berth's deferred writes, since clocks advance while a participant is
// stopped.
const turnLength = time.Second

// participant is a Berth with the profiles of all sides, on a control plane that is stopped
// between its turns; it runs the pods of one side.
type participant struct {
	*runner
	// before and after are what was used when its first turn began, and when its last one
	// ended.
	before, after procs.Usage
	ownTime       turns
	// ready is closed when all pods are bound.
	ready chan struct{}
}

// participant starts one with all profiles.
func (b *bench) participant(ctx context.Context, sh shape, sides []side) (*participant, error) {
	s, err := b.newTestEnv(ctx, sh, controlplane.Options{})
	if err != nil {
		return nil, err
	}
	r := &participant{runner: &runner{testEnv: s, shape: sh}}
	if err := r.startBerth(ctx, sides); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// startBerth starts Berth with the profiles of all sides.
func (r *participant) startBerth(ctx context.Context, sides []side) (err error) {
	if err := operator.Install(ctx, r.cp); err != nil {
		return err
	}
	for _, e := range sides {
		if err := operator.ApplyProfile(ctx, r.cp, e.name, explaining(e.explain)); err != nil {
			return err
		}
	}
	if r.process, err = startBerth(ctx, r.testEnv); err != nil {
		return err
	}
	for _, e := range sides {
		if _, err := operator.UntilProgrammed(ctx, r.cp, e.name); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all processes of the participant, also when they are stopped: a stopped process
// does not react to SIGTERM.
func (r *participant) stop() {
	_ = r.resume() // an error means that it has ended
	r.cp.Stop()
}

// resume and pause continue and stop all of the participant's processes.
func (r *participant) resume() error { return r.cp.Signal(syscall.SIGCONT) }
func (r *participant) pause() error  { return r.cp.Signal(syscall.SIGSTOP) }

// assign sets the side whose pods are run next.
func (r *participant) assign(sd side) {
	r.side, r.schedulerName, r.ownTime, r.ready = sd, sd.name, nil, make(chan struct{})
}

// prepare waits until Berth is idle, and notes what was used until then.
func (r *participant) prepare(ctx context.Context) (err error) {
	if r.before, err = r.procs().Settle(ctx, scheduler, r.countEvents); err != nil {
		return err
	}
	if r.events, err = r.countEvents(ctx); err != nil {
		return err
	}
	r.bound, err = load.WatchBound(ctx, r.client, r.schedulerName)
	return err
}

// work creates the pods and waits until they are bound.
func (r *participant) work(ctx context.Context, fail func(error)) {
	_, err := r.createPods(ctx)
	if err == nil {
		err = r.bound.Until(ctx, r.pods, r.cp.Running)
	}
	if err != nil {
		fail(fmt.Errorf("%s: %w", r.side.name, err))
		return
	}
	close(r.ready)
}

// takeTurn runs for turnLength, or until all pods are bound.
func (r *participant) takeTurn(ctx context.Context) error {
	turn := span{from: time.Now()}
	if err := r.resume(); err != nil {
		return err
	}
	timer := time.NewTimer(turnLength)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := r.pause()
	turn.to = time.Now()
	r.ownTime = append(r.ownTime, turn)
	if err == nil {
		r.after, err = r.procs().Read()
	}
	return err
}

// finished says whether all pods are bound.
func (r *participant) finished() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// result returns the run in the participant's own time. What Berth does after the last bind it
// does now.
func (r *participant) result(ctx context.Context) (run, error) {
	result := r.newRun()
	used := r.after.Minus(r.before)
	delete(used, harness) // it is one process for all participants
	if _, err := r.procs().Settle(ctx, scheduler, r.countEvents); err != nil {
		return result, errors.Join(r.cp.Running(), err)
	}
	first, last := r.firstAndLast()
	result.Took = r.ownTime.until(last).Seconds()
	return result, r.finish(ctx, &result, used, r.ownTime.until(last)-r.ownTime.until(first))
}

// clear deletes the pods, and waits until they and their SchedulingDecisions are deleted.
func (r *participant) clear(ctx context.Context) error {
	pods := r.client.CoreV1().Pods(namespace)
	ours := metav1.ListOptions{FieldSelector: "spec.schedulerName=" + r.schedulerName}
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
		return fmt.Errorf("waiting until the pods are deleted: %w", err)
	}
	return nil
}

// explained says whether a SchedulingDecision exists.
func (r *participant) explained(ctx context.Context) (bool, error) {
	text, err := r.client.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "schedulingdecisions").
		Param("limit", "1").DoRaw(ctx)
	if err != nil {
		return false, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(text, &list)
	return len(list.Items) > 0, err
}

// turns are the intervals in which a side ran, in order.
type turns []span

type span struct{ from, to time.Time }

// until is the sum of the intervals until then.
func (o turns) until(then time.Time) (sum time.Duration) {
	for _, s := range o {
		if s.to.After(then) {
			s.to = then
		}
		sum += max(0, s.to.Sub(s.from))
	}
	return sum
}
