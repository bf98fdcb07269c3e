package scheduler

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
)

// loopProgress records which pod the loop works on, and in which goroutine. The
// watchdog finds the plugin call that hangs in that goroutine's stack. Reads are safe
// for concurrent use.
type loopProgress struct {
	// leading is true while the loop runs. died says that it ended before its context.
	leading, died atomic.Bool
	// popped counts the pods that were popped.
	popped atomic.Uint64
	// goroutine is the ID of the loop's goroutine. Only the loop reads and writes it.
	goroutine uint64
	// current is the pod that the loop works on; nil while it waits for one.
	current atomic.Pointer[heartbeat]
	// busy holds one value while the loop works on a pod, or while WhileIdle or tidyUp runs.
	busy chan struct{}
}

// heartbeat is one iteration of the loop.
type heartbeat struct {
	pod   *v1.Pod
	start time.Time
	// framework runs the plugins; nil until the generation is known.
	framework atomic.Pointer[framework.Framework]
	// watch times the calls of out-of-tree plugins; nil where there are none.
	watch atomic.Pointer[framework.CallWatch]
	// step is when the loop went on to the next pod, or victim, of a group; nil for the first one.
	step atomic.Pointer[time.Time]
	// goroutine is the ID of the goroutine that works on the pod: the loop's, or an
	// asynchronous attempt's. It may wait for one that makes an isolated call.
	goroutine atomic.Uint64
}

// begin records that the loop works on a pod. It waits while WhileIdle or tidyUp runs.
func (p *loopProgress) begin(pod *v1.Pod, now time.Time) *heartbeat {
	p.popped.Add(1)
	return p.enter(&heartbeat{pod: pod, start: now})
}

// resume is begin for a pod that the loop goes on with, after it worked on others.
func (p *loopProgress) resume(b *heartbeat, now time.Time) *heartbeat {
	resumed := &heartbeat{pod: b.pod, start: now}
	resumed.framework.Store(b.framework.Load())
	resumed.watch.Store(b.watch.Load())
	return p.enter(resumed)
}

// lastStep is when the loop last did something that ends: began with the pod, or a step of it, or
// made a call.
func (b *heartbeat) lastStep() time.Time {
	last := b.start
	if step := b.step.Load(); step != nil && step.After(last) {
		last = *step
	}
	if watch := b.watch.Load(); watch != nil {
		if call := watch.LastTransition(); call.After(last) {
			last = call
		}
	}
	return last
}

func (p *loopProgress) enter(b *heartbeat) *heartbeat {
	b.goroutine.Store(p.goroutine)
	p.current.Store(b)
	p.busy <- struct{}{}
	return b
}

// end records that the loop is done with the pod.
func (p *loopProgress) end() {
	<-p.busy
	p.current.Store(nil)
}

// WhileIdle updates the snapshot and calls look while the loop works on no pod, so
// that look may read what only the loop may touch. The loop waits for look, which must
// be short. WhileIdle returns an error when ctx ends first.
func (s *Scheduler) WhileIdle(ctx context.Context, look func()) error {
	select {
	case s.progress.busy <- struct{}{}:
		defer func() { <-s.progress.busy }()
		s.leadMu.Lock() // the handover updates the snapshot as well
		defer s.leadMu.Unlock()
		s.cache.UpdateBetweenAttempts()
		look()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the loop is at a pod all the while: %w", context.Cause(ctx))
	}
}

// Watchdog checks that the loop makes progress. The loop abandons calls of
// out-of-tree plugins by itself; any other call that hangs blocks the loop for ever,
// and only a restart of the process ends it.
type Watchdog struct {
	scheduler *Scheduler
	// limit is how long one step of the loop may take.
	limit time.Duration

	mu sync.Mutex
	// popped is the number of popped pods at since, when the loop waited though pods
	// were active.
	popped uint64
	since  time.Time
	// reported is the step that location belongs to.
	reported reportedStep
	location string
}

// reportedStep is a step of an iteration, and since when it lasts.
type reportedStep struct {
	heartbeat *heartbeat
	since     time.Time
}

// NewWatchdog returns a Watchdog of s that fails when one step takes longer than
// limit, which must be more than framework.CallTimeout.
func (s *Scheduler) NewWatchdog(limit time.Duration) *Watchdog {
	return &Watchdog{scheduler: s, limit: limit}
}

// Check returns nil while the loop makes progress, has nothing to do or does not lead.
// Otherwise the error says that the loop has ended, or names the plugin call that hangs, and
// since when. It names no pod and no profile, since anybody may call the probe; the log names
// them.
func (w *Watchdog) Check() error {
	s := w.scheduler
	if s.progress.died.Load() {
		return errors.New("the scheduling loop has ended, and the process still leads")
	}
	now, popped := s.options.Clock.Now(), s.progress.popped.Load()
	if current := s.progress.current.Load(); current != nil {
		w.mu.Lock()
		w.since = time.Time{}
		w.mu.Unlock()
		return w.checkCurrent(current, now)
	}
	waiting := s.progress.leading.Load() && s.queue.HasActive()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !waiting || popped != w.popped || w.since.IsZero() {
		w.popped, w.since = popped, now
		return nil
	}
	if idle := now.Sub(w.since); idle > w.limit {
		return fmt.Errorf("the loop has popped no pod since %s (%v), and pods are waiting to be tried", formatTime(w.since), idle.Round(time.Second))
	}
	return nil
}

// checkCurrent is Check while the loop works on a pod.
func (w *Watchdog) checkCurrent(current *heartbeat, now time.Time) error {
	since := current.lastStep()
	busy := now.Sub(since)
	if busy <= w.limit {
		return nil
	}
	return fmt.Errorf("the loop has been at one pod since %s (%v), %s; the log names the pod", formatTime(since), busy.Round(time.Second), w.locate(current, since))
}

// locate returns where the loop hangs since a step. It searches and logs once per step.
func (w *Watchdog) locate(current *heartbeat, since time.Time) string {
	step := reportedStep{current, since}
	w.mu.Lock()
	reported, location := w.reported, w.location
	w.mu.Unlock()
	if reported == step {
		return location
	}
	location = w.findLocation(current, since)
	w.mu.Lock()
	w.reported, w.location = step, location
	w.mu.Unlock()
	return location
}

func formatTime(since time.Time) string { return since.UTC().Format(time.RFC3339) }

// findLocation finds where the loop hangs from its stack, and logs the stack.
func (w *Watchdog) findLocation(current *heartbeat, since time.Time) string {
	stack := workStackOf(allStacks(), current.goroutine.Load())
	w.scheduler.options.Log.Error(nil, "The scheduling loop hangs", "pod", klog.KObj(current.pod),
		"schedulingProfile", current.pod.Spec.SchedulerName, "since", since, "stack", stack)
	if f := current.framework.Load(); f != nil {
		if call, found := f.CallInStack(stack); found {
			return fmt.Sprintf("in a call of plugin %q at %s", call.Plugin, call.Point)
		}
	}
	for line := range strings.Lines(stack) {
		if function, ours := strings.CutPrefix(line, modulePath); ours {
			return "in no plugin, in " + function[:strings.LastIndex(function, "(")]
		}
	}
	return "in no plugin"
}

const (
	modulePath = "github.com/berthdev/berth/"
	// stackPrefix begins the stack of a goroutine; its ID follows.
	stackPrefix = "goroutine "
	// maxStackBytes bounds the text of all stacks.
	maxStackBytes = 64 << 20
)

// allStacks returns the stacks of all goroutines. It stops the world: about one
// millisecond for a few hundred goroutines.
func allStacks() string {
	for size := 1 << 20; ; size *= 2 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= maxStackBytes {
			return string(text[:n])
		}
	}
}

// workStackOf returns the stack of the goroutine with that ID, or, where it waits for an isolated
// call, that of the goroutine which makes the call.
func workStackOf(all string, goroutine uint64) string {
	stack, creator := stackOf(all, goroutine), fmt.Sprintf(" in goroutine %d\n", goroutine)
	for child := range strings.SplitSeq(all, "\n\n") {
		if strings.Contains(child+"\n", creator) && framework.IsIsolated(child) {
			return workStackOf(all, goroutineOf(child))
		}
	}
	return stack
}

// stackOf returns the stack of the goroutine with that ID; empty when it has ended.
func stackOf(all string, goroutine uint64) string {
	head := fmt.Sprint(stackPrefix, goroutine, " ")
	for stack := range strings.SplitSeq(all, "\n\n") {
		if strings.HasPrefix(stack, head) {
			return stack
		}
	}
	return ""
}

// goroutineID returns the ID of the calling goroutine, which the runtime prints only in
// the first line of its stack.
func goroutineID() uint64 {
	var text [64]byte
	return goroutineOf(string(text[:runtime.Stack(text[:], false)]))
}

// goroutineOf returns the ID of the goroutine with that stack.
func goroutineOf(stack string) uint64 {
	number, _, _ := strings.Cut(strings.TrimPrefix(stack, stackPrefix), " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0 // no goroutine has this ID
	}
	return id
}
