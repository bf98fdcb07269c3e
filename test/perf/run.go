package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/procs"
)

// run is one run of one side.
type run struct {
	Shape string `json:"shape"`
	Load  string `json:"load"`
	Side  string `json:"side"`
	Round int    `json:"round"`
	Pods  int    `json:"pods"`
	// StartUp is from the start of the process to the bind of the one pod that
	// waits for it, in seconds. The process was started once before.
	StartUp float64 `json:"startUpSeconds"`
	// Took is how long it took to bind all pods, in seconds: with drain, from
	// the start of the process to the last bind, less StartUp; else from the
	// first creation to the last bind.
	Took          float64 `json:"seconds"`
	PodsPerSecond float64 `json:"podsPerSecond"`
	// BindsPerSecond is the rate between the first bind and the last.
	BindsPerSecond float64 `json:"bindsPerSecond"`
	// CPU is in milliseconds a pod, by process; with drain, less what the run
	// for StartUp took.
	CPU map[string]float64 `json:"cpuMillisPerPod"`
	// Peak is the most memory resident, in MiB, by process.
	Peak         map[string]float64 `json:"peakMiB"`
	EventsPerPod float64            `json:"eventsPerPod"`
	// Told is Took, to the last event instead of the last bind; what is looked
	// for four times a second is not known better.
	Told float64 `json:"toldSeconds"`
	// Latency is from when a pod's creation was due to when it was seen bound,
	// in milliseconds; with open only.
	Latency *quantiles `json:"latencyMillis,omitempty"`
	// Late is how long creations waited for a free worker, in milliseconds: the
	// load itself is too slow when it is not small.
	Late *quantiles `json:"lateMillis,omitempty"`
}

// scheduler is how the measured process is named among the others; harness is
// this one: the load, and the watch that measures.
const scheduler, harness = "scheduler", "harness"

// trial is a run under way.
type trial struct {
	*stage
	shape shape
	side  side
	load  string
	round int
	pods  int
	// serves is whose pods they are; known is how many were bound before them.
	serves string
	known  int

	bound   *load.Bound
	process *controlplane.Process // the side's, while it runs
	events  int                   // that there were before
	counted int                   // events, when they were last looked for
	told    time.Time             // when they were last found to be more
}

// measure runs one side once, on a control plane of its own.
func (b *bench) measure(ctx context.Context, sh shape, sd side, how string, round int) (run, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.options.limit, fmt.Errorf("--limit %s is over", b.options.limit))
	defer cancel()
	s, err := b.set(ctx, sh)
	if err != nil {
		return run{}, err
	}
	defer s.cp.Stop()
	if err := sd.install(ctx, s); err != nil {
		return run{}, fmt.Errorf("installing %s: %w", sd.name, err)
	}
	t := &trial{stage: s, shape: sh, side: sd, load: how, round: round, pods: sh.pods(b.options, how), serves: profile, known: probes}
	if t.bound, err = load.WatchBound(ctx, s.client, profile); err != nil {
		return run{}, err
	}
	defer t.bound.Stop()
	r, err := t.run(ctx)
	if err != nil {
		return r, fmt.Errorf("%s: %w", sd.name, err)
	}
	return r, nil
}

// run starts the side with one pod to bind, twice, and then measures. What a
// first start alone has to do, such as judging a profile, is done by then.
func (t *trial) run(ctx context.Context) (run, error) {
	r := t.blank()
	var empty procs.Usage
	for range probes {
		t.end()
		startUp, used, err := t.empty(ctx)
		if err != nil {
			return r, fmt.Errorf("a run with one pod: %w", err)
		}
		r.StartUp, empty = startUp.Seconds(), used
	}
	var err error
	if t.events, err = t.countEvents(ctx); err != nil {
		return r, err
	}
	if t.load == "crowd" {
		if err := t.crowd(ctx); err != nil {
			return r, fmt.Errorf("the pods that fit nowhere: %w", err)
		}
	}
	if t.load == "drain" {
		return r, t.drain(ctx, &r, empty)
	}
	return r, t.flow(ctx, &r)
}

// blank is a run of which nothing is known yet.
func (t *trial) blank() run {
	return run{Shape: t.shape.name, Load: t.load, Side: t.side.name, Round: t.round, Pods: t.pods}
}

// pod is the i-th that the side is to bind.
func (t *trial) pod(i int) *corev1.Pod {
	pod := t.shape.waits(i)
	pod.Spec.SchedulerName = t.serves
	return pod
}

// start starts the side and returns when that was.
func (t *trial) start(ctx context.Context) (began time.Time, err error) {
	began = time.Now()
	t.process, err = t.side.start(ctx, t.stage)
	return began, err
}

// end ends the side, where it runs.
func (t *trial) end() {
	if t.process != nil {
		t.cp.End(t.process)
		t.process = nil
	}
}

// procs are the processes of the run.
func (t *trial) procs() procs.Procs {
	p := procs.Procs{harness: os.Getpid()}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		p[name] = t.cp.Process(name).PID()
	}
	if t.process != nil {
		p[scheduler] = t.process.PID()
	}
	return p
}

// untilBound waits until n pods are bound, and then until the side is idle. It
// returns what all had used by then.
func (t *trial) untilBound(ctx context.Context, n int) (procs.Usage, error) {
	if err := t.bound.Until(ctx, n, t.cp.Running); err != nil {
		return nil, err
	}
	used, err := t.procs().Settle(ctx, scheduler, t.countEvents)
	if err != nil {
		return nil, errors.Join(t.cp.Running(), err)
	}
	return used, nil
}

// finish fills in what all loads have in common; between is from the first bind to
// the last.
func (t *trial) finish(ctx context.Context, r *run, used procs.Usage, between time.Duration) error {
	r.CPU, r.Peak = map[string]float64{}, map[string]float64{}
	for name, cpu := range used {
		r.CPU[name] = millis(cpu) / float64(t.pods)
	}
	for name, pid := range t.procs() {
		mib, err := procs.Peak(pid)
		if err != nil {
			return err
		}
		r.Peak[name] = mib
	}
	if r.Took > 0 {
		r.PodsPerSecond = float64(t.pods) / r.Took
	}
	if between > 0 {
		r.BindsPerSecond = float64(t.pods-1) / between.Seconds()
	}
	events, err := t.countEvents(ctx)
	r.EventsPerPod = float64(events-t.events) / float64(t.pods)
	return err
}

// countEvents says how many events there are about the load's pods.
func (t *trial) countEvents(ctx context.Context) (int, error) {
	n, err := load.CountEvents(ctx, t.client, namespace)
	if n > t.counted {
		t.counted, t.told = n, time.Now()
	}
	return n, err
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
