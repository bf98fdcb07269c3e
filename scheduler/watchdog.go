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
type pulse struct {
	// leads says that the loop runs.
	leads atomic.Bool
	// beats is how many pods were popped.
	beats atomic.Uint64
	// goroutine is the number of the goroutine that the loop runs in. The loop alone
	// reads and writes it.
	goroutine uint64
	// at is the pod that the loop is at; nil while it waits for one.
	at atomic.Pointer[beat]
	// turn holds one value while the loop is at a pod, or somebody looks at what is
	// the loop's.
	turn chan struct{}
}

// beat is one turn of the loop.
type beat struct {
	pod   *v1.Pod
	begin time.Time
	// framework are the plugins that are asked; nil before that is known.
	framework atomic.Pointer[framework.Framework]
	// watch is that of an attempt beside the loop, which waits for it.
	watch atomic.Pointer[framework.Watch]
	// goroutine is the number of the goroutine that works on the pod: the loop's, or
	// that of an attempt beside it.
	goroutine atomic.Uint64
}

// begins notes that the loop is at a pod.
func (p *pulse) begins(pod *v1.Pod, now time.Time) *beat {
	b := &beat{pod: pod, begin: now}
	b.goroutine.Store(p.goroutine)
	p.beats.Add(1)
	p.at.Store(b)
	p.turn <- struct{}{}
	return b
}

// rests notes that the loop is done with it.
func (p *pulse) rests() {
	<-p.turn
	p.at.Store(nil)
}

// Between brings the snapshot up to date and calls look while the loop is at no
// pod, so that it may look at what is the loop's. The loop waits for it: look must
// be short. It fails when ctx ends first.
func (s *Scheduler) Between(ctx context.Context, look func()) error {
	select {
	case s.pulse.turn <- struct{}{}:
		defer func() { <-s.pulse.turn }()
		s.lead.Lock() // nor is a follower's ticker
		defer s.lead.Unlock()
		s.cache.Refresh()
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
	beats uint64
	since time.Time
	// told is what where was found out about.
	told  *beat
	where string
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
func (w *Watchdog) Alive() error {
	s := w.scheduler
	now, beats := s.options.Clock.Now(), s.pulse.beats.Load()
	if at := s.pulse.at.Load(); at != nil {
		w.mu.Lock()
		w.since = time.Time{}
		w.mu.Unlock()
		return w.busy(at, now)
	}
	waits := s.pulse.leads.Load() && s.queue.Due()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !waits || beats != w.beats || w.since.IsZero() {
		w.beats, w.since = beats, now
		return nil
	}
	if idle := now.Sub(w.since); idle > w.limit {
		return fmt.Errorf("the loop has popped no pod since %s (%v), and pods are waiting to be tried", moment(w.since), idle.Round(time.Second))
	}
	return nil
}

// busy is Alive while the loop is at a pod.
func (w *Watchdog) busy(at *beat, now time.Time) error {
	since := at.begin
	if watch := at.watch.Load(); watch != nil && !fault.SlowCallsAddUp {
		since = watch.Since()
	}
	busy := now.Sub(since)
	if busy <= w.limit || fault.HungLoopLives {
		return nil
	}
	if fault.ProbesNamePods {
		return fmt.Errorf("the loop has been at pod %s of profile %s since %s", klog.KObj(at.pod), at.pod.Spec.SchedulerName, moment(since))
	}
	return fmt.Errorf("the loop has been at one pod since %s (%v), %s; the log names the pod", moment(since), busy.Round(time.Second), w.found(at))
}

// found says where the loop is, which is found out, and logged, once for a pod.
func (w *Watchdog) found(at *beat) string {
	w.mu.Lock()
	told, where := w.told, w.where
	w.mu.Unlock()
	if told == at {
		return where
	}
	where = w.whereabouts(at)
	w.mu.Lock()
	w.told, w.where = at, where
	w.mu.Unlock()
	return where
}

func moment(since time.Time) string { return since.UTC().Format(time.RFC3339) }

// whereabouts says where the loop is, and logs its stack.
func (w *Watchdog) whereabouts(at *beat) string {
	stack := stackOf(stacks(), at.goroutine.Load())
	w.scheduler.options.Log.Error(nil, "The loop hangs", "pod", klog.KObj(at.pod),
		"schedulingProfile", at.pod.Spec.SchedulerName, "since", at.begin, "stack", stack)
	if f := at.framework.Load(); f != nil {
		if call, found := f.CallIn(stack); found {
			return fmt.Sprintf("in a call of plugin %q at %s", call.Plugin, call.Point)
		}
	}
	for line := range strings.Lines(stack) {
		if function, ours := strings.CutPrefix(line, module); ours {
			return "in no plugin, in " + function[:strings.LastIndex(function, "(")]
		}
	}
	return "in no plugin"
}

const (
	module = "github.com/berthdev/berth/"
	// stackHead is what the stack of a goroutine begins with; its number follows.
	stackHead = "goroutine "
	// stacksLimit bounds how much of all stacks is looked at, in bytes.
	stacksLimit = 64 << 20
)

// stacks are those of all goroutines. The world stands still for it, a
// millisecond for some hundred of them.
func stacks() string {
	for size := 1 << 20; ; size *= 2 {
		text := make([]byte, size)
		if n := runtime.Stack(text, true); n < size || size >= stacksLimit {
			return string(text[:n])
		}
	}
}

// stackOf is the stack of a goroutine, by its number; empty when it has ended.
func stackOf(all string, goroutine uint64) string {
	head := fmt.Sprint(stackHead, goroutine, " ")
	for one := range strings.SplitSeq(all, "\n\n") {
		if strings.HasPrefix(one, head) {
			return one
		}
	}
	return ""
}

// thisGoroutine is the number of the goroutine that calls it, which the runtime
// tells in the first line of its stack alone.
func thisGoroutine() uint64 {
	var text [64]byte
	head := strings.TrimPrefix(string(text[:runtime.Stack(text[:], false)]), stackHead)
	number, _, _ := strings.Cut(head, " ")
	id, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0 // which no goroutine has
	}
	return id
}
