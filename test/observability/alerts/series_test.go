package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/berth/test/support/controlplane"
)

// Alerts judged by series that are written down here: those of hours, of several replicas, and
// of faults that do not come again, which no running manager could give a test.

// recording is a Prometheus with the rules, and when each alert fired.
type recording struct {
	t      *testing.T
	server *prometheus
	alerts []*alert
	start  time.Time
	// fired has, by alert, the times since start of the evaluations at which it fired.
	fired map[string][]time.Duration
	// series has the series for which an alert fired last.
	series map[string][]string
}

func record(t *testing.T) *recording {
	t.Helper()
	root, err := controlplane.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAlerts(filepath.Join(root, "config", "prometheus", "alerts", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{t: t, server: newPrometheus(), alerts: all, fired: map[string][]time.Duration{}, series: map[string][]string{}}
	r.start = r.server.now
	return r
}

// only leaves out all alerts but these, to save time.
func (r *recording) only(names ...string) *recording {
	r.alerts = slices.DeleteFunc(r.alerts, func(a *alert) bool { return !slices.Contains(names, a.Alert) })
	if len(r.alerts) != len(names) {
		r.t.Fatalf("not all of %v are alerts", names)
	}
	return r
}

// scrape stores what an instance answered at a time since the start; nil where it did not.
func (r *recording) scrape(at time.Duration, instance string, lines []string) {
	r.t.Helper()
	r.server.now = r.start.Add(at)
	var text []byte
	if lines != nil {
		text = []byte(strings.Join(lines, "\n") + "\n")
	}
	if err := r.server.store(instance, text); err != nil {
		r.t.Fatal(err)
	}
}

// evaluate evaluates the alerts at a time since the start.
func (r *recording) evaluate(at time.Duration) {
	r.t.Helper()
	r.server.now = r.start.Add(at)
	for _, a := range r.alerts {
		if err := a.evaluate(r.t.Context(), r.server); err != nil {
			r.t.Fatal(err)
		}
		if firing := a.firing(r.server.now); firing != nil {
			r.fired[a.Alert] = append(r.fired[a.Alert], at)
			r.series[a.Alert] = firing
		}
	}
}

// stat returns the value of an alert's stat on the dashboard now.
func (r *recording) stat(alert string) float64 {
	r.t.Helper()
	b, _ := mustReadBoard(r.t)
	stat, err := b.statOf(alert)
	if err != nil {
		r.t.Fatal(err)
	}
	value, err := stat.stat(r.t.Context(), r.server)
	if err != nil {
		r.t.Fatal(err)
	}
	return value
}

// line is a series with a value, as a scrape has it.
func line(series string, value any) string { return fmt.Sprintf("%s %v", series, value) }

func TestAFaultThatDoesNotComeAgainFires(t *testing.T) {
	const (
		panics = `berth_plugin_faults_total{profile="berth",plugin="Mine",extension_point="Filter",fault="panic"}`
		late   = `berth_extender_answers_total{profile="berth",extender="far",verb="filter",result="late"}`
	)
	always := func(time.Duration) bool { return true }
	for name, c := range map[string]struct {
		alert, series string
		// value is the counter at a time; negative while the process has no such series.
		value func(at time.Duration) int
		// up says whether the process answers.
		up func(at time.Duration) bool
		// from and to are when the alert fires first, and last.
		from, to time.Duration
		// count is what the stat shows five minutes after from.
		count float64
	}{
		"a plugin that panicked three times between two scrapes": {
			"BerthPluginFails", panics, since(20*time.Minute, 3), always, 20 * time.Minute, 30 * time.Minute, 3,
		},
		"a plugin that panicked once more an hour later": {
			"BerthPluginFails", panics, func(at time.Duration) int {
				if at >= time.Hour {
					return 4
				}
				return 3
			}, always, time.Hour, 70 * time.Minute, 2,
		},
		"a plugin that panicked at the first pod of a new leader's process": {
			"BerthPluginFails", panics, since(20*time.Minute, 1), func(at time.Duration) bool { return at >= 20*time.Minute }, 20 * time.Minute, 30 * time.Minute, 1,
		},
		"a plugin that panicked five times before a restart, and three times after it": {
			"BerthPluginFails", panics, func(at time.Duration) int {
				if at >= 61*time.Minute && at < 64*time.Minute {
					return -1
				}
				if at < time.Hour {
					return 5
				}
				return 3
			}, func(at time.Duration) bool { return at < time.Hour || at >= 61*time.Minute }, 64 * time.Minute, 74 * time.Minute, 4, // increase() extrapolates
		},
		"an extender that was late for seven pods between two scrapes": {
			"BerthExtenderFails", late, since(20*time.Minute, 7), always, 25 * time.Minute, 30 * time.Minute, 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t).only(c.alert)
			// Before the first evaluation its series, if it is there, has a history.
			for at := -30 * time.Minute; at < 2*time.Hour; at += step {
				var lines []string
				if c.up(at) {
					lines = []string{line("process_start_time_seconds", 1)}
					if value := c.value(at); value >= 0 {
						lines = append(lines, line(c.series, value))
					}
				}
				r.scrape(at, "berth-0", lines)
				if at >= 0 {
					r.evaluate(at)
				}
				if at == c.from+5*time.Minute && at < c.to {
					if got := r.stat(c.alert); got != c.count {
						t.Errorf("the stat shows %v, want %v", got, c.count)
					}
				}
			}
			fired := r.fired[c.alert]
			if len(fired) == 0 || fired[0] != c.from || fired[len(fired)-1] > c.to || fired[len(fired)-1] < c.to-2*time.Minute {
				t.Fatalf("it fires at %v, want from %v to %v", fired, c.from, c.to)
			}
			for _, label := range []string{`profile="berth"`, `plugin="Mine"`, `fault="panic"`, `extension_point="Filter"`, `extender="far"`, `verb="filter"`, `result="late"`} {
				if strings.Contains(c.series, label) != strings.Contains(r.series[c.alert][0], label) {
					t.Errorf("it fires for %v", r.series[c.alert])
				}
			}
		})
	}
}

// since returns a counter that has a value from a time on, and no series before.
func since(begin time.Duration, value int) func(time.Duration) int {
	return func(at time.Duration) int {
		if at < begin {
			return -1
		}
		return value
	}
}

func TestWhichProfilesDoNotRun(t *testing.T) {
	const (
		awaits = `berth_profile_condition{profile="batch",condition="Programmed",reason="AwaitingApproval"}`
		built  = `berth_profile_condition{profile="batch",condition="Programmed",reason="BuildFailed"}`
		runs   = `berth_profile_running{profile="batch"}`
		held   = `berth_held_pods{profile="batch",reason="ProfileNotRunning"}`
		paused = `berth_held_pods{profile="batch",reason="ProfilePaused"}`
		others = `berth_held_pods{profile="web",reason="ProfileNotRunning"}`
	)
	for name, c := range map[string]struct {
		leader, standby []string
		fires           bool
	}{
		"a new profile that waits for its approval, without pods": {
			[]string{line(runs, 0), line(awaits, 0)}, []string{}, false,
		},
		"a new profile that waits for its approval, whose pods wait": {
			[]string{line(runs, 0), line(awaits, 0), line(held, 2)}, []string{line(held, 2)}, true,
		},
		"a profile whose approved revision could not be built after a restart, while an edit waits for approval": {
			[]string{line(runs, 0), line(awaits, 0), line(held, 500)}, []string{line(held, 500)}, true,
		},
		"a profile that waits for its approval while another has held pods": {
			[]string{line(runs, 0), line(awaits, 0), line(others, 1)}, []string{line(others, 1)}, false,
		},
		"a profile that waits for its approval and has paused pods": {
			[]string{line(runs, 0), line(awaits, 0), line(paused, 1)}, []string{}, false,
		},
		"a profile that runs while an edit waits for approval": {
			[]string{line(runs, 1), line(awaits, 0)}, []string{}, false,
		},
		"a profile that could not be built, without pods": {
			[]string{line(runs, 0), line(built, 0)}, []string{}, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t).only("BerthProfileNotRunning")
			for at := time.Duration(0); at <= 10*time.Minute; at += step {
				r.scrape(at, "berth-0", c.leader)
				r.scrape(at, "berth-1", c.standby)
				r.evaluate(at)
			}
			fired := r.fired["BerthProfileNotRunning"]
			if (len(fired) > 0) != c.fires {
				t.Fatalf("it fires at %v", fired)
			}
			if got, want := r.stat("BerthProfileNotRunning"), map[bool]float64{true: 1}[c.fires]; got != want {
				t.Errorf("the stat shows %v, want %v", got, want)
			}
			if c.fires && !strings.Contains(r.series["BerthProfileNotRunning"][0], `profile="batch"`) {
				t.Errorf("it fires for %v", r.series["BerthProfileNotRunning"])
			}
		})
	}
}

func TestAQueueHasToGrowForTenMinutes(t *testing.T) {
	for name, c := range map[string]struct {
		pods func(minutes float64) float64
		// first is the minute of the first evaluation at which it fires; negative for never.
		first float64
	}{
		"of 500 pods in a process that has just started": {
			func(minutes float64) float64 {
				if minutes < 1 {
					return 500 + 10*minutes
				}
				return 510 - 100*(minutes-1)
			}, -1,
		},
		"that grows from the start of the process": {
			func(minutes float64) float64 { return 500 + 10*minutes }, 10.5,
		},
		"that grows and falls back to 100 pods for a minute": {
			func(minutes float64) float64 {
				if minutes > 8 && minutes < 9 {
					return 100
				}
				return 500 + 10*minutes
			}, 20, // the fall makes the slope negative for a while
		},
		"of many pods that gets shorter": {
			func(minutes float64) float64 { return 5000 - 10*minutes }, -1,
		},
		"that grows with few pods": {
			func(minutes float64) float64 { return minutes }, -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t).only("BerthQueueGrows")
			for at := time.Duration(0); at <= time.Hour; at += step {
				r.scrape(at, "berth-0", []string{
					line(`leader_election_master_status{name="berth-manager"}`, 1),
					line(`scheduler_pending_pods{queue="active"}`, max(0, c.pods(at.Minutes()))),
				})
				r.evaluate(at)
			}
			first := -1.0
			if fired := r.fired["BerthQueueGrows"]; len(fired) > 0 {
				first = fired[0].Minutes()
			}
			if first != c.first {
				t.Errorf("it fires first after %v minutes, want %v", first, c.first)
			}
		})
	}
}
