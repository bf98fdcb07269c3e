package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/fault"
	"github.com/berthdev/berth/scheduler/framework"
)

// Timeout bounds the time for the pods of one evaluation: after it, no further pod is
// begun. It also bounds the time for each pod.
const Timeout = 2 * time.Second

// equivalenceCacheBytes bounds the equivalence cache of one evaluation.
const equivalenceCacheBytes = 32 << 20

// Runtime says how an evaluation starts concurrent work and waits for it.
type Runtime struct {
	Clock clock.WithDelayedExecution
	Go    func(func())
	Wait  framework.WaitFunc
	// QueuedInfo returns a pod in the form that QueueSort plugins compare.
	QueuedInfo func(*v1.Pod) fwk.QueuedEntityInfo
}

// Results are the results of pods, in their order: nil for a pod that fits.
type Results []error

// LateError says that plugins did not return in time, or that the context ended first.
type LateError struct {
	framework.Call
	Pod *v1.Pod
	// Returned is closed when the plugins have returned after all.
	Returned <-chan struct{}
	// Err is why the evaluation no longer waited.
	Err error
}

// Unwrap returns Err.
func (e *LateError) Unwrap() error { return e.Err }

func (e *LateError) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("pod %s/%s: no answer within %v", e.Pod.Namespace, e.Pod.Name, Timeout)
	}
	return fmt.Sprintf("pod %s/%s: plugin %q did not come back from %s within %v", e.Pod.Namespace, e.Pod.Name, e.Plugin, e.Point, Timeout)
}

// errTimeout is the cause with which the context of a pod's evaluation ends at Timeout.
var errTimeout = errors.New("the time limit is exceeded")

// Evaluate runs the plugins for pods in order, for as many as there is time for. The
// error is a *LateError if it stopped waiting for the plugins: they did not return in
// time, or ctx ended. After that error the Sandbox must not be used until they have
// returned; otherwise it is as before the call.
//
// The plugins run concurrently to the caller, for one pod at a time, so that a plugin
// that hangs does not block the caller.
func (s *Sandbox) Evaluate(ctx context.Context, r Runtime, c Candidate, last *framework.Trial, pods []*v1.Pod) (Results, error) {
	c.equivalenceCache, c.queuedInfo = cycle.NewBudget(equivalenceCacheBytes).NewEquivalenceCache(c.Framework), r.QueuedInfo
	begin := r.Clock.Now()
	var results Results
	for _, pod := range pods {
		if r.Clock.Since(begin) >= Timeout {
			break
		}
		last.Clear()
		late, result := s.evaluateAsync(ctx, r, &c, last, pod)
		if late != nil {
			return results, late
		}
		results = append(results, result)
	}
	s.reset()
	s.inUse, s.exposed = false, s.exposed || c.Framework.HasOutOfTreePlugins()
	return results, nil
}

// evaluateAsync evaluates one pod. A result after Timeout does not count, since the plugin
// may have waited for the end of its context. The plugin's name is taken before the
// context ends, because afterwards another plugin may already run.
func (s *Sandbox) evaluateAsync(ctx context.Context, r Runtime, c *Candidate, last *framework.Trial, pod *v1.Pod) (*LateError, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timedOut := make(chan framework.Call, 1)
	timer := r.Clock.AfterFunc(Timeout, func() {
		timedOut <- last.LastCall()
		cancel(errTimeout)
	})
	defer timer.Stop()
	done := make(chan struct{})
	var result error
	r.Go(func() {
		defer close(done)
		result = s.evaluate(ctx, c, pod)
	})
	err := r.Wait(ctx, done)
	select {
	case call := <-timedOut:
		if !fault.TrialBelievesTheLate {
			return &LateError{Call: call, Pod: pod, Returned: done, Err: errTimeout}, nil
		}
	default:
	}
	if err != nil {
		return &LateError{Call: last.LastCall(), Pod: pod, Returned: done, Err: err}, nil
	}
	return nil, result
}
