package main

import (
	"slices"
	"testing"
	"time"
)

// replica is a pod of the manager whose process may end, as Prometheus and the kubelet see it.
type replica struct {
	name  string
	phase time.Duration
	// started is when its process started, and ended when it ended, if it does not run.
	started, ended time.Duration
	runs, leads    bool
	// pause is the kubelet's next pause before it starts the container.
	pause time.Duration
	// led is when its process became the leader.
	led time.Duration
}

// life says when the process of a replica ends by itself.
type life struct {
	// sinceStart is the age at which it ends, sinceLead the time as the leader; one is 0, for never.
	sinceStart, sinceLead time.Duration
}

// isOver says whether the process of a replica ends at a time. It has led well until healthy.
func (l life) isOver(p *replica, at, healthy time.Duration) bool {
	if l.sinceStart > 0 {
		return at-p.started >= l.sinceStart
	}
	return p.leads && at-max(p.led, healthy) >= l.sinceLead
}

// crash has replicas whose processes lead and end as life says, with 500 active pods of which
// none is decided, and records for how long after healthy minutes. The scrapes of the replicas
// have a phase each.
func crash(r *recording, replicas []*replica, l life, healthy, length time.Duration) {
	const second = time.Second
	free := time.Duration(0)
	for at := time.Duration(0); at < healthy+length; at += second {
		for _, p := range replicas {
			if p.runs && at >= healthy && l.isOver(p, at, healthy) {
				if at-p.started >= 10*time.Minute {
					p.pause = 0
				}
				p.pause = min(max(10*second, 2*p.pause), 5*time.Minute)
				if p.leads {
					free = at + 15*second // its Lease is not released
				}
				p.runs, p.leads, p.ended = false, false, at
			}
			if !p.runs && at-p.ended >= p.pause {
				p.runs, p.started = true, at
			}
			led := slices.ContainsFunc(replicas, func(o *replica) bool { return o.leads })
			if p.runs && !led && at >= free && at-p.started >= 3*second {
				p.leads, p.led = true, at
			}
			if at%step == p.phase {
				r.scrape(at, p.name, p.answer(at, at >= healthy))
			}
		}
		if at%step == 7*second {
			r.evaluate(at)
		}
	}
}

// answer is what the replica answers to a scrape; nil when it does not run.
func (p *replica) answer(at time.Duration, broken bool) []string {
	if !p.runs {
		return nil
	}
	leads, active, attempts := 0, 0, 0
	if p.leads {
		leads = 1
	}
	if broken {
		active = 500
	} else {
		attempts = int((at - p.started).Seconds())
	}
	lines := []string{
		line("process_start_time_seconds", p.started.Seconds()),
		line(`leader_election_master_status{name="berth-manager"}`, leads),
		line(`scheduler_pending_pods{queue="active"}`, active),
	}
	if attempts > 0 {
		lines = append(lines, line(`scheduler_schedule_attempts_total{profile="berth",result="scheduled"}`, attempts*leads))
	}
	return lines
}

func TestManagersThatEndAgainAndAgainRaiseACriticalAlert(t *testing.T) {
	const second, healthy, length = time.Second, 20 * time.Minute, 6 * time.Hour
	for name, l := range map[string]life{
		"1 s after their start":   {sinceStart: second},
		"10 s after their start":  {sinceStart: 10 * second},
		"20 s after their start":  {sinceStart: 20 * second},
		"40 s after their start":  {sinceStart: 40 * second},
		"2 min after their start": {sinceStart: 120 * second},
		"20 s after they lead":    {sinceLead: 20 * second},
		"60 s after they lead":    {sinceLead: 60 * second},
		"2 min after they lead":   {sinceLead: 120 * second},
	} {
		for where, replicas := range map[string]func() []*replica{
			"one replica":  func() []*replica { return []*replica{{name: "berth-0", runs: true}} },
			"two replicas": func() []*replica { return []*replica{{name: "berth-0", runs: true}, {name: "berth-1", runs: true}} },
			"two that are not scraped at once": func() []*replica {
				return []*replica{{name: "berth-0", runs: true}, {name: "berth-1", runs: true, phase: 11 * second}}
			},
		} {
			t.Run(name+": "+where, func(t *testing.T) {
				t.Parallel()
				r := record(t)
				r.alerts = slices.DeleteFunc(r.alerts, func(a *alert) bool { return a.Labels["severity"] != "critical" })
				crash(r, replicas(), l, healthy, length)
				var all []time.Duration
				for _, at := range r.fired {
					all = append(all, at...)
				}
				slices.Sort(all)
				if len(all) == 0 || all[0] < healthy {
					t.Fatalf("no critical alert fires, or one fires before: %v", all)
				}
				before := healthy
				for _, at := range append(all, healthy+length) {
					if at-before > 20*time.Minute {
						t.Errorf("no critical alert fires from %v to %v", before-healthy, at-healthy)
					}
					before = at
				}
			})
		}
	}
}

func TestRestartsThatAreNoProblemRaiseNoAlert(t *testing.T) {
	const minute = time.Minute
	// process is a process of a pod, with the time of its start and of its end.
	type process struct {
		pod      string
		from, to time.Duration
	}
	for name, c := range map[string]struct {
		processes []process
		// unscraped is when Prometheus itself does not run.
		unscraped []time.Duration
	}{
		"four rollouts in half an hour": {processes: []process{
			{"a-0", 0, 60 * minute}, {"a-1", 0, 61 * minute}, {"b-0", 60 * minute, 67 * minute}, {"b-1", 61 * minute, 68 * minute},
			{"c-0", 67 * minute, 74 * minute}, {"c-1", 68 * minute, 75 * minute}, {"d-0", 74 * minute, 80 * minute},
			{"d-1", 75 * minute, 81 * minute}, {"e-0", 80 * minute, 120 * minute}, {"e-1", 81 * minute, 120 * minute},
		}},
		"each replica restarts as the API servers do, and one of them twice": {processes: []process{
			{"a-0", 0, 60 * minute}, {"a-1", 0, 65 * minute}, {"a-0", 60*minute + step, 70 * minute},
			{"a-1", 65*minute + step, 120 * minute}, {"a-0", 70*minute + step, 120 * minute},
		}},
		"Prometheus does not run for ten minutes, in which a replica restarts": {processes: []process{
			{"a-0", 0, 64 * minute}, {"a-1", 0, 120 * minute}, {"a-0", 65 * minute, 120 * minute},
		}, unscraped: []time.Duration{60 * minute, 70 * minute}},
	} {
		t.Run(name, func(t *testing.T) {
			r := record(t).only("BerthRestarts")
			for at := time.Duration(0); at < 2*time.Hour; at += step {
				if c.unscraped != nil && at >= c.unscraped[0] && at < c.unscraped[1] {
					continue
				}
				scraped := map[string]bool{}
				for _, p := range c.processes {
					if at >= p.from && at < p.to {
						r.scrape(at, p.pod, []string{line("process_start_time_seconds", p.from.Seconds())})
						scraped[p.pod] = true
					}
				}
				for _, p := range c.processes {
					if !scraped[p.pod] && at == p.to {
						r.scrape(at, p.pod, nil)
					}
				}
				r.evaluate(at)
			}
			if len(r.fired) > 0 {
				t.Errorf("alerts fire: %v", r.fired)
			}
		})
	}
}
