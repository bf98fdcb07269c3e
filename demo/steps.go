package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// settings say how the demo runs.
type settings struct {
	// out gets the story.
	out io.Writer
	// keep leaves all processes running at the end.
	keep bool
	// on is the folder of a control plane that another program runs, which has the
	// nodes and Berth already; empty: the demo starts one.
	attachTo string
	// killManagerAfter names the step after which the manager is killed; a
	// test shows with it that the demo cannot pass without one.
	killManagerAfter string
}

// step is one scene of the story.
type step struct {
	title string
	limit time.Duration
	do    func(*demo, context.Context) error
}

// steps is the story, in the order in which it is told.
var steps = []step{
	// The house. Each needs the one before.
	{"build the manager", 15 * time.Minute, (*demo).buildManager},
	{"start etcd, kube-apiserver, the controllers and KWOK", 40 * time.Minute, (*demo).startControlPlane},
	{"add 50 nodes of 4 CPU in 3 zones", 3 * time.Minute, (*demo).addNodes},
	{"install Berth's resources, account and rights", time.Minute, (*demo).install},
	{"run the manager under its account", 2 * time.Minute, (*demo).runManager},

	// The main job, and the switch that nobody waits for.
	{"apply a profile that spreads", time.Minute, (*demo).applyProfile},
	{"200 pods are spread", 3 * time.Minute, (*demo).deploySpread},
	{"switch the profile to packing, live", time.Minute, (*demo).switchToPack},
	{"the next 200 pods are packed", 3 * time.Minute, (*demo).deployPacked},
	{"switch back while 200 pods are coming: none is lost", 3 * time.Minute, (*demo).switchInFlight},

	// What goes wrong is said, and harms nobody.
	{"a broken change is refused, and scheduling goes on", 2 * time.Minute, (*demo).refuseBrokenChange},
	{"a pod that fits nowhere is told why", time.Minute, (*demo).explainRefusal},
	{"the books agree with the pods", time.Minute, (*demo).showTotals},
}

// run tells the story. Whatever it started has ended when it returns, unless
// the settings keep it.
func run(ctx context.Context, set settings) (err error) {
	s := &demo{settings: set}
	defer func() {
		if s.cp == nil {
			return
		}
		if set.keep {
			s.printKeepInfo()
			return
		}
		s.cp.Stop()
	}()
	for i, step := range steps {
		start := time.Now()
		fmt.Fprintf(set.out, "\ndemo: %d/%d %s\n", i+1, len(steps), step.title)
		if err := s.runStep(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step.title, err)
		}
		fmt.Fprintf(set.out, "  (%.1f s)\n", time.Since(start).Seconds())
		if step.title == set.killManagerAfter {
			s.manager.Kill()
		}
	}
	return nil
}

func (s *demo) runStep(ctx context.Context, step step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, step.limit, errors.New("not done within "+step.limit.String()))
	defer cancel()
	return step.do(s, ctx)
}
