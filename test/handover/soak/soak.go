package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berthdev/berth/test/support/controlplane"
	"github.com/berthdev/berth/test/support/load"
	"github.com/berthdev/berth/test/support/operator"
	"github.com/berthdev/berth/test/support/procs"
)

// soak is one run.
type soak struct {
	options options
	out     io.Writer
	began   time.Time

	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
	manager *operator.Manager
	bound   *load.Bound
	// generations are those that ran, with their hashes.
	generations map[int64]string
	// total is how many pods there shall be so far, reached how many a second
	// the storm bound.
	total   int
	reached float64
	// edits is how often the profile was changed under a stream, broken how
	// often to something that is refused.
	edits, broken int
}

func (s *soak) say(format string, args ...any) {
	fmt.Fprintf(s.out, "soak: %5.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// run does it all and ends what it started.
func run(ctx context.Context, o options, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("--limit %s is over", o.limit))
	defer cancel()
	s := &soak{options: o, out: out, began: time.Now(), generations: map[int64]string{}, total: o.pods}
	path, err := operator.Build(ctx)
	if err != nil {
		return err
	}
	s.cp, err = controlplane.Start(ctx, controlplane.Options{ControllerManager: true, KWOK: o.kwok})
	if err != nil {
		return err
	}
	defer s.cp.Stop()
	if err := s.prepare(ctx, path); err != nil {
		return err
	}
	defer s.bound.Stop()
	if err := s.storm(ctx); err != nil {
		return err
	}
	if o.stream > 0 {
		if err := s.streams(ctx); err != nil {
			return err
		}
		s.say("the profile was changed %d times, %d of them to something that was refused", s.edits, s.broken)
	}
	return s.check(ctx)
}

// prepare makes the cluster: nodes, Berth, and a profile that runs.
func (s *soak) prepare(ctx context.Context, path string) (err error) {
	if s.client, err = load.Client(s.cp.Config()); err != nil {
		return err
	}
	if err := s.cp.Nodes(ctx, s.options.nodes, controlplane.NodeOptions{CPU: fmt.Sprintf("%dm", milliCPU), Pods: podsANode}); err != nil {
		return err
	}
	s.say("%d nodes are Ready, KWOK: %t", s.options.nodes, s.options.kwok)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := s.untilAccount(ctx); err != nil {
		return err
	}
	if err := operator.Install(ctx, s.cp); err != nil {
		return err
	}
	if s.manager, err = operator.Start(ctx, s.cp, path); err != nil {
		return err
	}
	if err := s.manager.Until(ctx, s.manager.Ready); err != nil {
		return err
	}
	if err := s.apply(ctx, 0); err != nil {
		return err
	}
	s.say("the manager is ready, and profile %s runs", profile)
	s.bound, err = load.WatchBound(ctx, s.client, profile)
	return err
}

// untilAccount waits for the account that every pod needs.
func (s *soak) untilAccount(ctx context.Context) error {
	return s.cp.Process("kube-controller-manager").Until(ctx, func(ctx context.Context) error {
		_, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// storm creates the pods, swaps the profile meanwhile, and waits until all are
// bound.
func (s *soak) storm(ctx context.Context) error {
	began := time.Now()
	all := procs.Procs{"manager": s.manager.PID(), "kube-apiserver": s.cp.Process("kube-apiserver").PID()}
	before, err := all.Read()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	beside := []func(context.Context) error{s.crowd, s.swap, s.record}
	ends := make(chan error, len(beside))
	for _, do := range beside {
		go func() {
			err := do(ctx)
			if err != nil {
				cancel(err)
			}
			ends <- err
		}()
	}
	err = s.bound.Until(ctx, s.options.pods, s.cp.Running)
	took := time.Since(began)
	for range beside {
		err = errors.Join(err, <-ends)
	}
	if err != nil {
		return err
	}
	s.reached = float64(s.options.pods) / took.Seconds()
	after, err := all.Settle(ctx, "manager", func(ctx context.Context) (int, error) {
		return load.CountEvents(ctx, s.client, namespace)
	})
	if err != nil {
		return err
	}
	peak, err := procs.Peak(s.manager.PID())
	used, pods := after.Minus(before), float64(s.options.pods)
	s.say("%d pods bound in %.1f s: %.0f a second, creation included; CPU a pod: manager %.2f ms, kube-apiserver %.2f ms; peak of the manager %.0f MiB",
		s.options.pods, took.Seconds(), s.reached,
		used["manager"].Seconds()*1000/pods, used["kube-apiserver"].Seconds()*1000/pods, peak)
	return err
}

// record takes the CPU profile, where one is wanted.
func (s *soak) record(ctx context.Context) error {
	const seconds = 10
	if s.options.profile == "" {
		return nil
	}
	return s.manager.CPUProfile(ctx, seconds, s.options.profile)
}
