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

// Limit is how long one set of plugins is asked: after it no other pod is
// begun. It is also how long the plugins may take for one pod.
const Timeout = 2 * time.Second

// memoBytes bounds what is remembered in one trial.
const equivalenceCacheBytes = 32 << 20

// Rules say how work is done and waited for.
type Runtime struct {
	Clock clock.WithDelayedExecution
	Go    func(func())
	Wait  framework.WaitFunc
	// Queued is a pod as QueueSort plugins see it.
	QueuedInfo func(*v1.Pod) fwk.QueuedEntityInfo
}

// Answers are what the plugins said of pods, in turn: nil for one that fits.
type Results []error

// LateError says that the plugins did not come back in time.
type LateError struct {
	framework.Call
	Pod *v1.Pod
	// Back is closed when they do after all.
	Returned <-chan struct{}
	// Err is why they were not waited for.
	Err error
}

// Unwrap returns why the plugins were not waited for.
func (e *LateError) Unwrap() error { return e.Err }

func (e *LateError) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("pod %s/%s: no answer within %v", e.Pod.Namespace, e.Pod.Name, Timeout)
	}
	return fmt.Sprintf("pod %s/%s: plugin %q did not come back from %s within %v", e.Pod.Namespace, e.Pod.Name, e.Plugin, e.Point, Timeout)
}

// errLate is why an attempt was given up.
var errTimeout = errors.New("the limit is over")

// Ask asks about pods in turn, as many as there is time for. The error is a
// *LateError when the plugins were not waited for any more: they did not come
// back in time, or ctx ended. Nothing of the Town may be used then until they
// are back; else it is what it was before.
//
// The pods are asked about beside the caller, one at a time: what hangs, hangs
// there.
func (t *Sandbox) Evaluate(ctx context.Context, r Runtime, c Candidate, last *framework.Trial, pods []*v1.Pod) (Results, error) {
	c.equivalenceCache, c.queuedInfo = cycle.NewBudget(equivalenceCacheBytes).NewEquivalenceCache(c.Framework), r.QueuedInfo
	begin := r.Clock.Now()
	var answers Results
	for _, pod := range pods {
		if r.Clock.Since(begin) >= Timeout {
			break
		}
		last.Clear()
		late, answer := t.evaluateAsync(ctx, r, &c, last, pod)
		if late != nil {
			return answers, late
		}
		answers = append(answers, answer)
	}
	t.reset()
	t.inUse, t.exposed = false, t.exposed || c.Framework.HasOutOfTreePlugins()
	return answers, nil
}

// askBeside asks about one pod. What is said once the limit is over counts no
// more: that the time is over may itself be what the plugin waited for, and who
// it was is remembered from before it could hear of it.
func (t *Sandbox) evaluateAsync(ctx context.Context, r Runtime, c *Candidate, last *framework.Trial, pod *v1.Pod) (*LateError, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan framework.Call, 1)
	timer := r.Clock.AfterFunc(Timeout, func() {
		over <- last.LastCall()
		cancel(errTimeout)
	})
	defer timer.Stop()
	done := make(chan struct{})
	var said error
	r.Go(func() {
		defer close(done)
		said = t.evaluate(ctx, c, pod)
	})
	err := r.Wait(ctx, done)
	select {
	case call := <-over:
		if !fault.TrialBelievesTheLate {
			return &LateError{Call: call, Pod: pod, Returned: done, Err: errTimeout}, nil
		}
	default:
	}
	if err != nil {
		return &LateError{Call: last.LastCall(), Pod: pod, Returned: done, Err: err}, nil
	}
	return nil, said
}
