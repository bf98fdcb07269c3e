package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// settings are the options of the demo.
type settings struct {
	// out receives the output.
	out io.Writer
	// keep leaves all processes running at the end.
	keep bool
	// attachTo is the folder of a control plane that another program runs, with nodes and Berth;
	// if empty, the demo starts a control plane.
	attachTo string
	// killManagerAfter is the title of the step after which the manager is killed: a test shows
	// with it that the demo fails without a manager.
	killManagerAfter string
}

// step is a step of the demo.
type step struct {
	title string
	limit time.Duration
	do    func(*demo, context.Context) error
}

// steps are the steps in order.
var steps = []step{
	// Setup. Each step needs the one before.
	{"build the manager", 15 * time.Minute, (*demo).buildManager},
	{"start etcd, kube-apiserver, the controllers and KWOK", 40 * time.Minute, (*demo).startControlPlane},
	{"add 50 nodes of 4 CPU in 3 zones", 3 * time.Minute, (*demo).addNodes},
	{"install the CRDs, the service account and its permissions", time.Minute, (*demo).install},
	{"run the manager with its service account", 2 * time.Minute, (*demo).runManager},

	// Profiles, and a change without a restart.
	{"apply a profile that spreads", time.Minute, (*demo).applyProfile},
	{"200 pods are spread", 3 * time.Minute, (*demo).deploySpread},
	{"switch the profile to packing, live", time.Minute, (*demo).switchToPack},
	{"the next 200 pods are packed", 3 * time.Minute, (*demo).deployPacked},
	{"switch back while 200 pods arrive: none is lost", 3 * time.Minute, (*demo).switchInFlight},

	// Devices of a driver without hardware.
	{"each of 10 pods gets one of 10 devices, and 2 more say what they lack", 10 * time.Minute, (*demo).deployWithDevices},

	// Errors and their reports.
	{"an invalid change is rejected, and scheduling continues", 2 * time.Minute, (*demo).refuseBrokenChange},
	{"an unschedulable pod has the reason in its condition", time.Minute, (*demo).explainRefusal},
	{"status and totals agree with the pods", time.Minute, (*demo).showTotals},
}

// run runs the demo. Everything that it started is stopped when it returns, unless the
// settings keep it.
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
