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
	for name, c := range map[string]struct {
		requested bool
		// leaseLost is after what time the Lease is lost; 0 for never.
		leaseLost time.Duration
		// bindings is how long bindings may go on, and cause why they are cancelled then.
		bindings time.Duration
		cause    error
		// finalWrites is how long the leader may write after that, and finalEvents how long
		// Events may take.
		finalWrites, finalEvents time.Duration
	}{
		"a requested shutdown completes bindings":                   {true, 0, 20 * time.Second, errShutdownTimeout, finalWritesTimeout, finalEventsTimeout},
		"a Lease lost during the shutdown cancels bindings at once": {true, 4900 * time.Millisecond, 5 * time.Second, errNotLeading, 0, finalEventsTimeout},
		"a Lease lost without a request cancels bindings at once":   {false, 0, 0, errNotLeading, 0, leaseLostEventsTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requested, request := context.WithCancel(t.Context())
				defer request()
				leading, lost := context.WithCancel(requested)
				defer lost()
				var leaseLost atomic.Bool
				scheduled := make(chan struct{})
				s := &shutdown{requested: requested, timeout: limit, schedulingDone: scheduled, leads: func() bool { return !leaseLost.Load() }}
				bindings, done := s.bindingContext(leading)
				defer done()
				time.Sleep(time.Hour)
				if bindings.Err() != nil || s.ready() != nil {
					t.Fatalf("before: %v, %v", context.Cause(bindings), s.ready())
				}
				begin := time.Now()
				if c.requested {
					request()
				} else {
					lost()
				}
				if c.leaseLost > 0 {
					time.AfterFunc(c.leaseLost, func() { leaseLost.Store(true) })
				}
				<-bindings.Done()
				if took := time.Since(begin); took != c.bindings || !errors.Is(context.Cause(bindings), c.cause) {
					t.Errorf("bindings may go on for %v (%v), want %v (%v)", took, context.Cause(bindings), c.bindings, c.cause)
				}
				close(scheduled)
				begin = time.Now()
				writes, cancel := s.finalWrites()
				defer cancel()
				<-writes.Done()
				if took := time.Since(begin); took != c.finalWrites || s.finalEventsTimeout() != c.finalEvents {
					t.Errorf("final writes may take %v, Events %v, want %v, %v", took, s.finalEventsTimeout(), c.finalWrites, c.finalEvents)
				}
				if ready := s.ready(); (ready == nil) == c.requested {
					t.Errorf("ready: %v", ready)
				}
			})
		})
	}
}

func TestTheSmallestShutdownTimeoutLeavesTimeForBindings(t *testing.T) {
	s := &shutdown{timeout: minShutdownTimeout}
	if bindings := s.managerTimeout() - finalWritesTimeout - undoTime; bindings != minBindingTime {
		t.Errorf("bindings have %v", bindings)
	}
}

func TestFlagsAreValidated(t *testing.T) {
	for flag, want := range map[string]string{
		"--watchdog-timeout=10s":          "--watchdog-timeout: must exceed 10s, after which the loop itself leaves a plugin behind, or be 0, is 10s",
		"--watchdog-timeout=-1s":          "--watchdog-timeout: must exceed 10s, after which the loop itself leaves a plugin behind, or be 0, is -1s",
		"--watchdog-timeout=0":            "",
		"--watchdog-timeout=11s":          "",
		"--graceful-shutdown-timeout=10s": "--graceful-shutdown-timeout: must be at least 11s, is 10s",
		"--graceful-shutdown-timeout=11s": "",
		"--metrics-bind-address=8443":     `--metrics-bind-address: must be HOST:PORT, :PORT, or 0 for nowhere, is "8443"`,
		"--metrics-bind-address=":         `--metrics-bind-address: must be HOST:PORT, :PORT, or 0 for nowhere, is ""`,
		"--metrics-bind-address=0":        "",
		"--health-probe-bind-address=a":   `--health-probe-bind-address: must be HOST:PORT, :PORT, or 0 for nowhere, is "a"`,
		"--health-probe-bind-address=":    `--health-probe-bind-address: must be HOST:PORT, :PORT, or 0 for nowhere, is ""`,
		"--pprof-bind-address=foo":        `--pprof-bind-address: must be HOST:PORT, :PORT, or 0 for nowhere, is "foo"`,
		"--pprof-bind-address=[::1]:6060": "",
		"--kube-api-qps=0":                "--kube-api-qps: must be positive, or -1 for no limit, is 0",
	} {
		if _, err := parseFlags([]string{flag}); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
