package operator

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestShutdownDeadlines(t *testing.T) {
	const limit = 30 * time.Second
	for sentence, c := range map[string]struct {
		asked bool
		// loses is when leadership is lost after that; 0: never.
		loses time.Duration
		// binds is for how long bindings may go on, why what ends them then.
		binds time.Duration
		why   error
		// words is for how long the leader may write when they have ended.
		words, events time.Duration
	}{
		"asked to end, it finishes what it began":      {true, 0, 20 * time.Second, errShutdownTimeout, finalWritesTimeout, finalEventsTimeout},
		"who loses the Lease meanwhile stops at once":  {true, 4900 * time.Millisecond, 5 * time.Second, errNotLeading, 0, finalEventsTimeout},
		"who loses the Lease unasked finishes nothing": {false, 0, 0, errNotLeading, 0, leaseLostEventsTimeout},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, ask := context.WithCancel(t.Context())
				defer ask()
				leading, lost := context.WithCancel(asked)
				defer lost()
				var gone atomic.Bool
				scheduled := make(chan struct{})
				end := &shutdown{requested: asked, timeout: limit, schedulingDone: scheduled, leads: func() bool { return !gone.Load() }}
				life, over := end.bindingContext(leading)
				defer over()
				time.Sleep(time.Hour)
				if life.Err() != nil || end.ready() != nil {
					t.Fatalf("before: %v, %v", context.Cause(life), end.ready())
				}
				begin := time.Now()
				if c.asked {
					ask()
				} else {
					lost()
				}
				if c.loses > 0 {
					time.AfterFunc(c.loses, func() { gone.Store(true) })
				}
				<-life.Done()
				if took := time.Since(begin); took != c.binds || !errors.Is(context.Cause(life), c.why) {
					t.Errorf("bindings may go on for %v (%v), want %v (%v)", took, context.Cause(life), c.binds, c.why)
				}
				close(scheduled)
				begin = time.Now()
				words, cancel := end.finalWrites()
				defer cancel()
				<-words.Done()
				if took := time.Since(begin); took != c.words || end.finalEventsTimeout() != c.events {
					t.Errorf("last words may take %v, Events %v, want %v, %v", took, end.finalEventsTimeout(), c.words, c.events)
				}
				if ready := end.ready(); (ready == nil) == c.asked {
					t.Errorf("ready: %v", ready)
				}
			})
		})
	}
}

func TestTheSmallestShutdownTimeoutLeavesTimeForBindings(t *testing.T) {
	end := &shutdown{timeout: minShutdownTimeout}
	if binds := end.managerTimeout() - finalWritesTimeout - undoTime; binds != minBindingTime {
		t.Errorf("bindings have %v", binds)
	}
}

func TestFlagsOfWatchdogAndShutdownAreValidated(t *testing.T) {
	for flag, want := range map[string]string{
		"--watchdog-timeout=10s":          "--watchdog-timeout: must exceed 10s, after which the loop itself leaves a plugin behind, or be 0, is 10s",
		"--watchdog-timeout=-1s":          "--watchdog-timeout: must exceed 10s, after which the loop itself leaves a plugin behind, or be 0, is -1s",
		"--watchdog-timeout=0":            "",
		"--watchdog-timeout=11s":          "",
		"--graceful-shutdown-timeout=10s": "--graceful-shutdown-timeout: must be at least 11s, is 10s",
		"--graceful-shutdown-timeout=11s": "",
	} {
		if _, err := parseFlags([]string{flag}); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
