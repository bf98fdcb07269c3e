package crashes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// actTimeout is the timeout of a scenario, crash included.
	actTimeout = 2 * time.Minute
	// linger is how long a run waits, after a scenario has ended, for a write that has not come.
	linger = 3 * time.Second
	// settled is after what time without a write a scenario is at rest: counters are published
	// each second.
	settled = 1500 * time.Millisecond
	// checkTimeout is how long the end of a scenario may take to satisfy the checks: the status
	// is written each second.
	checkTimeout = 20 * time.Second
	// kubeletInterval is how often pods are deleted after a crash that only terminate.
	kubeletInterval = time.Second
)

// Outcome is the result of a cell.
type Outcome struct {
	Cell Cell `json:"cell"`
	// Reached says that the process was killed at the moment of the cell.
	Reached bool `json:"reached"`
	// Violations are what is wrong afterwards.
	Violations []string `json:"violations,omitempty"`
	// Seconds is how long the cell took.
	Seconds float64 `json:"seconds"`
}

// Learn runs a scenario without a crash. It returns the cells of its writes, up to the nth of
// each kind; an error says that the scenario does not end as it should, or that a fault point of
// its rows was not seen.
func (s *Suite) Learn(ctx context.Context, name string, nth int) ([]Cell, error) {
	scenario, err := scenarioOf(name)
	if err != nil {
		return nil, err
	}
	t, violations, err := s.play(ctx, scenario, nil)
	if err != nil {
		return nil, fmt.Errorf("%s, without a crash: %w", name, err)
	}
	if len(violations) > 0 {
		return nil, fmt.Errorf("%s, without a crash: %s", name, strings.Join(violations, "; "))
	}
	return cellsOf(scenario, t, nth), nil
}

// cellsOf returns the cells of a scenario, from the writes of its reference run.
func cellsOf(s *scenario, t *trigger, nth int) (cells []Cell) {
	for i, step := range s.steps {
		cells = append(cells, Cell{Scenario: s.name, Write: step.name, Nth: 1, Moment: Held, Standby: i%2 == 1 && step.then == nil && s.name == stepsOfPod})
	}
	if len(s.steps) > 0 {
		return cells
	}
	labels, counts := t.writes()
	for _, label := range labels {
		for n := range min(counts[label], nth) {
			for _, moment := range moments {
				cells = append(cells, Cell{Scenario: s.name, Write: label, Nth: n + 1, Moment: moment, Standby: (len(cells)+len(cells)/len(moments))%2 == 1})
			}
		}
	}
	return cells
}

// Run runs a cell. An error says that it could not be run.
func (s *Suite) Run(ctx context.Context, cell Cell) (Outcome, error) {
	begin := time.Now()
	scenario, err := scenarioOf(cell.Scenario)
	if err != nil {
		return Outcome{}, err
	}
	t, violations, err := s.play(ctx, scenario, &cell)
	if err != nil {
		return Outcome{}, fmt.Errorf("%s: %w", cell, err)
	}
	return Outcome{Cell: cell, Reached: t.victim() != nil, Violations: violations, Seconds: time.Since(begin).Seconds()}, nil
}

// play runs a scenario, with a crash where there is a target. It returns what is wrong in the
// end; an error says that the scenario could not be run.
func (s *Suite) play(ctx context.Context, scenario *scenario, target *Cell) (t *trigger, violations []string, err error) {
	e, err := s.newEnv(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.finish(ctx, scenario, e)) }()
	if err := s.ensure(ctx, scenario.plugins, target != nil && target.Standby); err != nil {
		return nil, nil, err
	}
	if err := scenario.prepare(ctx, e); err != nil {
		return nil, nil, fmt.Errorf("preparing: %w", err)
	}
	t = newTrigger(scenario, e.id, target)
	s.trigger.Store(t)
	defer t.letGo()
	actErr, err := s.act(ctx, e, t)
	if err != nil {
		return t, nil, err
	}
	if actErr != nil {
		return t, append([]string{actErr.Error()}, s.verdict(ctx, e, t)...), nil
	}
	if target == nil {
		if err := s.awaitWrites(ctx, t); err != nil {
			return t, nil, err
		}
	}
	s.trigger.Store(nil) // the checks cause writes, too
	return t, s.checkWhileRunning(ctx, e, t), nil
}

// checkWhileRunning is check. Meanwhile it starts a process where the leader ended by itself,
// since the machine is too busy to renew the Lease.
func (s *Suite) checkWhileRunning(ctx context.Context, e *env, t *trigger) []string {
	result := make(chan []string, 1)
	go func() { result <- s.check(ctx, e, t) }()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case violations := <-result:
			return violations
		case <-tick.C:
			if err := s.restartEnded(); err != nil {
				return append([]string{err.Error()}, <-result...)
			}
		}
	}
}

// finish removes what a scenario made.
func (s *Suite) finish(ctx context.Context, scenario *scenario, e *env) error {
	s.trigger.Store(nil)
	e.checker.Stop()
	errs := []error{s.clearSteps()}
	if scenario.cleanup != nil {
		errs = append(errs, scenario.cleanup(ctx, e))
	}
	return errors.Join(append(errs, e.cleanup(ctx))...)
}

// act runs what the scenario does, and sees to it that a process runs. actErr says that the
// scenario did not end as it should.
func (s *Suite) act(ctx context.Context, e *env, t *trigger) (actErr, err error) {
	step, err := s.holdStep(e, t)
	if err != nil {
		return nil, err
	}
	actCtx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- t.scenario.act(actCtx, e) }()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var lingers, kubelet <-chan time.Time
	fired := t.fired
	for {
		select {
		case <-fired:
			fired, kubelet = nil, time.Tick(kubeletInterval)
			if err := s.succeed(ctx, t); err != nil {
				return nil, err
			}
			if lingers != nil {
				return actErr, nil
			}
		case actErr = <-done:
			if t.target == nil || fired == nil || actErr != nil {
				return actErr, nil
			}
			lingers = time.After(linger)
		case <-lingers:
			return actErr, nil
		case <-kubelet:
			if err := e.completeDeletions(actCtx); err != nil && actCtx.Err() == nil {
				return nil, err
			}
		case <-tick.C:
			if err := s.restartEnded(); err != nil {
				return nil, err
			}
			if step != nil && fired != nil {
				if err := s.killHeld(actCtx, e, t, *step); err != nil {
					return nil, err
				}
			}
		}
	}
}

// holdStep lets Stepper hold the process, if the cell is one of a step.
func (s *Suite) holdStep(e *env, t *trigger) (*step, error) {
	if t.target == nil || t.target.Moment != Held {
		return nil, nil
	}
	for _, step := range t.scenario.steps {
		if step.name == t.target.Write {
			return &step, e.holdAt(step)
		}
	}
	return nil, fmt.Errorf("scenario %q has no step %q", t.scenario.name, t.target.Write)
}

// killHeld kills the process that is held at the step, if one is.
func (s *Suite) killHeld(ctx context.Context, e *env, t *trigger, at step) error {
	select {
	case <-t.fired:
		return nil
	default:
	}
	held, err := e.heldAt(at)
	if held == nil || err != nil {
		return err
	}
	if at.then != nil {
		if err := at.then(ctx, e); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.killed = held
	t.mu.Unlock()
	s.end(held)
	close(t.fired)
	return s.clearSteps()
}

// succeed starts a process after a crash, unless another one is ready to lead, and lets a late
// write arrive once that leads.
func (s *Suite) succeed(ctx context.Context, t *trigger) error {
	at := time.Now()
	if err := s.restartEnded(); err != nil {
		return err
	}
	if t.target.Moment == Late {
		go func() {
			_ = s.leads(ctx, at) // a leader that never comes is found by the scenario
			t.letGo()
		}()
	}
	return nil
}

// restartEnded starts a process if none runs, and counts those that ended by themselves.
func (s *Suite) restartEnded() error {
	for _, r := range s.replicas {
		if m := r.manager.Load(); m != nil && !r.running() && r.expected.CompareAndSwap(false, true) {
			if why := panicIn(m.Log()); why != "" {
				return fmt.Errorf("a manager crashed by itself: %s; its log is %s", why, m.Log())
			}
			s.Lost++
		}
	}
	if len(s.alive()) > 0 {
		return nil
	}
	return s.start(s.follower())
}

// panicIn returns the line of a log with which the Go runtime reports a crash; "" if there is
// none.
func panicIn(log string) string {
	text, err := os.ReadFile(filepath.Clean(log))
	if err != nil {
		return err.Error()
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// awaitWrites waits until a write of each row of the scenario was seen, and then until no more
// writes come.
func (s *Suite) awaitWrites(ctx context.Context, t *trigger) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, checkTimeout, true, func(context.Context) (bool, error) {
		return len(t.unseen()) == 0, nil
	})
	if err != nil {
		var missing []string
		for _, row := range t.unseen() {
			missing = append(missing, fmt.Sprintf("%s (%s)", row.label(), row.Point))
		}
		labels, counts := t.writes()
		return fmt.Errorf("the scenario does not reach %s; it reaches %q, in numbers %v", strings.Join(missing, ", "), labels, counts)
	}
	last, since := 0, time.Now()
	_ = wait.PollUntilContextTimeout(ctx, pollInterval, checkTimeout, true, func(context.Context) (bool, error) {
		if n := t.total(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > settled, nil
	}) // a scenario that does not come to rest has all its writes
	return nil
}
