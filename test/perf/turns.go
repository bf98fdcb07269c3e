package main

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/berthdev/berth/test/support/procs"
)

// turnLength is short compared with disturbances on a shared machine, and long compared with
// the intervals of Berth's deferred writes, since clocks advance while a participant is
// stopped.
const turnLength = time.Second

// countInterval is how often Events are counted after the last bind.
const countInterval = 250 * time.Millisecond

// participant is a runner that runs in turns: all processes of its control plane, the side's
// included, are stopped meanwhile. The sides run on it one after the other.
type participant struct {
	*runner
	result run
	// empty is what the start-up with one pod used, where the load includes one.
	empty procs.Usage
	// before and after are what was used before the first turn, and when the last one ended.
	before, after procs.Usage
	ownTime       turns
	begun, done   bool
	// allBound is closed when all pods are bound.
	allBound chan struct{}
}

// stop ends all processes of the participant, also when they are stopped: a stopped process
// does not react to SIGTERM.
func (p *participant) stop() {
	_ = p.resume() // an error means that it has ended
	if p.bound != nil {
		p.bound.Stop()
	}
	p.cp.Stop()
}

// resume and pause continue and stop all of the participant's processes.
func (p *participant) resume() error { return p.cp.Signal(syscall.SIGCONT) }
func (p *participant) pause() error  { return p.cp.Signal(syscall.SIGSTOP) }

// assign sets the side that runs next.
func (p *participant) assign(sd side) {
	p.side, p.manager = sd, nil
	p.result, p.ownTime, p.begun, p.done, p.allBound = p.newRun(), nil, false, false, make(chan struct{})
}

// alternate runs the participants, which are stopped, in turns until all are done.
func alternate(ctx context.Context, participants []*participant) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for left := slices.Clone(participants); len(left) > 0; {
		for _, p := range left {
			if err := p.takeTurn(ctx, fail); err != nil {
				return fmt.Errorf("%s: %w", p.side.name, err)
			}
		}
		left = slices.DeleteFunc(left, func(p *participant) bool { return p.done })
	}
	return nil
}

// takeTurn runs for turnLength. A turn that began after the last bind, and in which no Event
// was counted, is the last one.
func (p *participant) takeTurn(ctx context.Context, fail func(error)) error {
	counted, bound := p.counted, p.isBound()
	turn := span{from: time.Now()}
	if err := p.resume(); err != nil {
		return err
	}
	if !p.begun {
		p.begun = true
		if err := p.begin(ctx, fail); err != nil {
			return err
		}
	}
	if err := p.runFor(ctx, turnLength); err != nil {
		return err
	}
	err := p.pause()
	turn.to = time.Now()
	p.ownTime = append(p.ownTime, turn)
	p.done = bound && p.counted == counted
	if err == nil {
		p.after, err = p.procs().Read()
	}
	return err
}

// begin starts the side, or the creation of its pods, and the wait until all are bound.
func (p *participant) begin(ctx context.Context, fail func(error)) error {
	create := func() error { return nil }
	if p.load == "drain" {
		if _, err := p.start(ctx); err != nil {
			return err
		}
	} else {
		create = func() error {
			_, err := p.createPods(ctx)
			return err
		}
	}
	go func() {
		err := create()
		if err == nil {
			err = p.bound.Until(ctx, p.boundBefore+p.pods, p.cp.Running)
		}
		if err != nil {
			fail(fmt.Errorf("%s: %w", p.side.name, err))
			return
		}
		close(p.allBound)
	}()
	return nil
}

// runFor counts the Events after the last bind, for as long.
func (p *participant) runFor(ctx context.Context, long time.Duration) error {
	over, ticker := time.NewTimer(long), time.NewTicker(countInterval)
	defer over.Stop()
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if !p.isBound() {
				continue
			}
			if _, err := p.countEvents(ctx); err != nil {
				return err
			}
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// isBound says whether all pods are bound.
func (p *participant) isBound() bool {
	select {
	case <-p.allBound:
		return true
	default:
		return false
	}
}

// turns are the intervals in which a side ran, in order.
type turns []span

type span struct{ from, to time.Time }

// until is the sum of the intervals until then.
func (o turns) until(then time.Time) (sum time.Duration) {
	for _, s := range o {
		if s.to.After(then) {
			s.to = then
		}
		sum += max(0, s.to.Sub(s.from))
	}
	return sum
}
