package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
)

// alternatingLoads are the loads under which the sides alternate, with the load that each of
// them has.
var alternatingLoads = map[string]string{"alternating": "burst", "alternating+unfit": "burst+unfit", "alternating+drain": "drain"}

// isAlternating says whether the sides alternate under a load.
func isAlternating(load string) bool { return alternatingLoads[load] != "" }

// alternating has all sides bind the same pods at the same time, each on a control plane of its
// own that is stopped while another side runs: disturbances of the machine affect all of them
// alike. Two control planes that were set up alike differ by some percent for as long as they
// run: each round has new ones, and without unfit pods each side runs on all of them.
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
func (b *bench) round(ctx context.Context, sh shape, sides []side, g *group, number int) (runs []run, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	shifts := len(sides)
	if g.Unfit > 0 {
		shifts = 1 // explanations of that many unfit pods take minutes to be deleted
	}
	var participants []*participant
	for range sides {
		s, err := b.newTestEnv(ctx, sh, controlplane.Options{EtcdData: b.etcdData})
		if err != nil {
			return nil, err
		}
		p := &participant{runner: &runner{
			testEnv: s, shape: sh, load: alternatingLoads[g.Load], round: number, pods: max(2, g.Pods/shifts), schedulerName: profile, boundBefore: startUpRuns,
		}}
		defer p.stop()
		if err := p.pause(); err != nil {
			return nil, err
		}
		participants = append(participants, p)
	}
	for shift := range shifts {
		for i, p := range participants {
			if err := p.prepare(ctx, sides[(i+shift)%len(sides)]); err != nil {
				return nil, fmt.Errorf("%s: %w", p.side.name, err)
			}
		}
		if err := alternate(ctx, participants); err != nil {
			return nil, err
		}
		for _, p := range participants {
			if err := p.finishAlternating(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", p.side.name, err)
			}
			p.result.Load = g.Load
			runs = append(runs, p.result)
		}
	}
	return runs, nil
}

// mergeRuns merges the runs of one side in a round.
func mergeRuns(side string, runs []run) run {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r run) bool { return r.Side != side })
	all := runs[0]
	all.CPU, all.Peak = map[string]float64{}, map[string]float64{}
	mean := func(field func(*run) *float64) {
		sum := 0.0
		for i := range runs {
			sum += *field(&runs[i])
		}
		*field(&all) = sum / float64(len(runs))
	}
	for _, field := range []func(*run) *float64{
		func(r *run) *float64 { return &r.StartUp },
		func(r *run) *float64 { return &r.StartUpCPU },
		func(r *run) *float64 { return &r.Took },
		func(r *run) *float64 { return &r.ToLastEvent },
		func(r *run) *float64 { return &r.BindsPerSecond },
		func(r *run) *float64 { return &r.EventsPerPod },
		func(r *run) *float64 { return &r.Counted.Writes },
		func(r *run) *float64 { return &r.Counted.ReadKB },
		func(r *run) *float64 { return &r.Counted.WrittenKB },
		func(r *run) *float64 { return &r.Counted.Allocs },
		func(r *run) *float64 { return &r.Counted.AllocatedKB },
	} {
		mean(field)
	}
	for _, r := range runs {
		for name := range r.CPU {
			all.CPU[name] += r.CPU[name] / float64(len(runs))
		}
		for name := range r.Peak {
			all.Peak[name] = max(all.Peak[name], r.Peak[name])
		}
	}
	all.PodsPerSecond = float64(all.Pods) / all.Took
	all.Pods, all.Took, all.ToLastEvent = all.Pods*len(runs), all.Took*float64(len(runs)), all.ToLastEvent*float64(len(runs))
	return all
}

// prepare replaces the side that ran before, has the next one start up, and prepares its load.
// All processes are stopped again after it.
func (p *participant) prepare(ctx context.Context, sd side) error {
	if err := p.resume(); err != nil {
		return err
	}
	if p.bound != nil {
		if err := p.clear(ctx); err != nil {
			return fmt.Errorf("waiting until the pods are deleted: %w", err)
		}
		p.end()
	}
	p.assign(sd)
	if err := sd.install(ctx, p.testEnv); err != nil {
		return fmt.Errorf("installing: %w", err)
	}
	var err error
	if p.bound, err = load.WatchBound(ctx, p.client, profile); err != nil {
		return err
	}
	if p.empty, err = p.startUps(ctx, &p.result); err != nil {
		return err
	}
	if err := p.prepareLoad(ctx); err != nil {
		return err
	}
	if p.before, err = p.procs().Read(); err != nil {
		return err
	}
	return p.pause()
}

// prepareLoad creates what exists before the load.
func (p *participant) prepareLoad(ctx context.Context) (err error) {
	if p.events, err = p.countEvents(ctx); err != nil {
		return err
	}
	switch p.load {
	case "drain":
		return p.prepareDrain(ctx)
	case "burst+unfit":
		if err := p.createUnfit(ctx); err != nil {
			return fmt.Errorf("the pods that fit no node: %w", err)
		}
	}
	p.empty = nil // only a load that includes a start has it taken off
	if p.manager != nil {
		if _, err := operator.UntilProgrammed(ctx, p.cp, profile); err != nil {
			return err
		}
	}
	_, err = p.procs().Settle(ctx, scheduler, p.countEvents)
	return err
}

// finishAlternating completes the result, in the participant's own time.
func (p *participant) finishAlternating(ctx context.Context) error {
	if err := p.resume(); err != nil {
		return err
	}
	r, start := &p.result, 0.0
	if p.load == "drain" {
		start = r.StartUp
	}
	first, last := p.firstAndLast()
	r.Took = p.ownTime.until(last).Seconds() - start
	r.ToLastEvent = p.ownTime.until(p.lastEventAt).Seconds() - start
	used := p.after.Minus(p.before).Minus(p.empty)
	delete(used, harness) // it is one process for all participants
	if err := p.finish(ctx, r, used, p.ownTime.until(last)-p.ownTime.until(first)); err != nil {
		return err
	}
	return p.pause()
}

// clear deletes the pods, and waits until they and their SchedulingDecisions, which a Berth
// deletes, do not exist.
func (p *participant) clear(ctx context.Context) error {
	p.bound.Stop()
	pods := p.client.CoreV1().Pods(namespace)
	ours := metav1.ListOptions{FieldSelector: "spec.schedulerName=" + profile}
	if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, ours); err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		left, err := pods.List(ctx, metav1.ListOptions{FieldSelector: ours.FieldSelector, Limit: 1})
		if err != nil || len(left.Items) > 0 {
			return false, err
		}
		explained, err := p.explained(ctx)
		return !explained, err
	})
}

// explained says whether a SchedulingDecision exists.
func (p *participant) explained(ctx context.Context) (bool, error) {
	if p.manager == nil {
		return false, nil // Berth may never have been installed
	}
	text, err := p.client.CoreV1().RESTClient().Get().AbsPath("/apis", v1alpha1.GroupVersion.String(), "schedulingdecisions").
		Param("limit", "1").DoRaw(ctx)
	if err != nil {
		return false, err
	}
	var list metav1.PartialObjectMetadataList
	err = json.Unmarshal(text, &list)
	return len(list.Items) > 0, err
}
