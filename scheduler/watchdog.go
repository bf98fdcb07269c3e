package scheduler

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// The loop notes at which pod it is, and which goroutine works on the pod: which
// plugin that one is in is read from its stack, once somebody must be told.

// pulse is the loop's progress. Anybody may read it.
type loopProgress struct {
	// leads says that the loop runs.
	leading atomic.Bool
	// beats is how many pods were popped.
	popped atomic.Uint64
	// goroutine is the number of the goroutine that the loop runs in. The loop alone
	// reads and writes it.
	goroutine uint64
	// at is the pod that the loop is at; nil while it waits for one.
	current atomic.Pointer[heartbeat]
	// turn holds one value while the loop is at a pod, or somebody looks at what is
	// the loop's.
	busy chan struct{}
}

// beat is one turn of the loop.
type heartbeat struct {
	pod   *v1.Pod
	start time.Time
	// framework are the plugins that are asked; nil before that is known.
	framework atomic.Pointer[framework.Framework]
	// watch is that of an attempt beside the loop, which waits for it.
	watch atomic.Pointer[framework.CallWatch]
	// goroutine is the number of the goroutine that works on the pod: the loop's, or
	// that of an attempt beside it.
	goroutine atomic.Uint64
}

// begins notes that the loop is at a pod.
func (p *loopProgress) begin(pod *v1.Pod, now time.Time) *heartbeat {
	b := &heartbeat{pod: pod, start: now}
	b.goroutine.Store(p.goroutine)
	p.popped.Add(1)
	p.current.Store(b)
	p.busy <- struct{}{}
	return b
}

// rests notes that the loop is done with it.
func (p *loopProgress) end() {
	<-p.busy
	p.current.Store(nil)
}

// Between brings the snapshot up to date and calls look while the loop is at no
// pod, so that it may look at what is the loop's. The loop waits for it: look must
// be short. It fails when ctx ends first.
func (s *Scheduler) WhileIdle(ctx context.Context, look func()) error {
	select {
	case s.progress.busy <- struct{}{}:
		defer func() { <-s.progress.busy }()
		s.leadMu.Lock() // nor is a follower's ticker
		defer s.leadMu.Unlock()
		s.cache.UpdateSnapshot()
		look()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the loop is at a pod all the while: %w", context.Cause(ctx))
	}
}

// Watchdog tells whether the loop goes on. Plugins that are not built in are
// left behind by the loop itself, and so do not count; what hangs besides would
// hang for ever, and ends with the process alone.
type Watchdog struct {
	scheduler *Scheduler
	// limit is how long the loop may be at one step.
	limit time.Duration

	mu sync.Mutex
	// beats is how many pods there had been popped at since, when pods were
	// waiting for the loop and it for them.
	popped uint64
	since  time.Time
	// told is what where was found out about.
	reported *heartbeat
	location string
}

// NewWatchdog returns a Watchdog of s that is alarmed when one step takes longer
// than limit, which must be more than framework.CallLimit.
func (s *Scheduler) NewWatchdog(limit time.Duration) *Watchdog {
	return &Watchdog{scheduler: s, limit: limit}
}

// Alive is nil while the loop goes on, or has nothing to do: it waits for pods,
// or does not lead. Else the error says in which call of a plugin it hangs, and since
// when. It names no pod and no profile, since probes are answered to everybody; the log
// does.
func (w *Watchdog) Check() error {
	s := w.scheduler
	now, beats := s.options.Clock.Now(), s.progress.popped.Load()
	if at := s.progress.current.Load(); at != nil {
		w.mu.Lock()
		w.since = time.Time{}
		w.mu.Unlock()
		return w.checkCurrent(at, now)
	}
	waits := s.progress.leading.Load() && s.queue.HasActive()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !waits || beats != w.popped || w.since.IsZero() {
		w.popped, w.since = beats, now
		return nil
	}
	if idle := now.Sub(w.since); idle > w.limit {
		return fmt.Errorf("the loop has popped no pod since %s (%v), and pods are waiting to be tried", formatTime(w.since), idle.Round(time.Second))
	}
	return nil
}

// busy is Alive while the loop is at a pod.
func (w *Watchdog) checkCurrent(at *heartbeat, now time.Time) error {
	since := at.start
	if watch := at.watch.Load(); watch != nil && !fault.SlowCallsAddUp {
		since = watch.LastTransition()
	}
	busy := now.Sub(since)
	if busy <= w.limit || fault.HungLoopLives {
		return nil
	}
	if fault.ProbesNamePods {
		return fmt.Errorf("the loop has been at pod %s of profile %s since %s", klog.KObj(at.pod), at.pod.Spec.SchedulerName, formatTime(since))
	}
	return fmt.Errorf("the loop has been at one pod since %s (%v), %s; the log names the pod", formatTime(since), busy.Round(time.Second), w.locate(at))
}

// found says where the loop is, which is found out, and logged, once for a pod.
func (w *Watchdog) locate(at *heartbeat) string {
	w.mu.Lock()
	told, where := w.reported, w.location
	w.mu.Unlock()
	if told == at {
		return where
	}
	where = w.findLocation(at)
	w.mu.Lock()
	w.reported, w.location = at, where
	w.mu.Unlock()
	return where
}

func formatTime(since time.Time) string { return since.UTC().Format(time.RFC3339) }

// whereabouts says where the loop is, and logs its stack.
func (w *Watchdog) findLocation(at *heartbeat) string {
	stack := stackOf(allStacks(), at.goroutine.Load())
	w.scheduler.options.Log.Error(nil, "The loop hangs", "pod", klog.KObj(at.pod),
		"schedulingProfile", at.pod.Spec.SchedulerName, "since", at.start, "stack", stack)
	if f := at.framework.Load(); f != nil {
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
	// stackHead is what the stack of a goroutine begins with; its number follows.
	stackPrefix = "goroutine "
	// stacksLimit bounds how much of all stacks is looked at, in bytes.
	maxStackBytes = 64 << 20
)

// stacks are those of all goroutines. The world stands still for it, a
// millisecond for some hundred of them.
func allStacks() string {
	for size := 1 << 20; ; size *= 2 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= maxStackBytes {
			return string(text[:n])
		}
	}
}

// stackOf is the stack of a goroutine, by its number; empty when it has ended.
func stackOf(all string, goroutine uint64) string {
	head := fmt.Sprint(stackPrefix, goroutine, " ")
	for one := range strings.SplitSeq(all, "\n\n") {
		if strings.HasPrefix(one, head) {
			return one
		}
	}
	return ""
}

// thisGoroutine is the number of the goroutine that calls it, which the runtime
// tells in the first line of its stack alone.
func goroutineID() uint64 {
	var text [64]byte
	head := strings.TrimPrefix(string(text[:runtime.Stack(text[:], false)]), stackPrefix)
	number, _, _ := strings.Cut(head, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0 // which no goroutine has
	}
	return id
}
