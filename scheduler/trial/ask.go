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
const Limit = 2 * time.Second

// memoBytes bounds what is remembered in one trial.
const memoBytes = 32 << 20

// Rules say how work is done and waited for.
type Rules struct {
	Clock clock.WithDelayedExecution
	Go    func(func())
	Wait  framework.Wait
	// Queued is a pod as QueueSort plugins see it.
	Queued func(*v1.Pod) fwk.QueuedEntityInfo
}

// Answers are what the plugins said of pods, in turn: nil for one that fits.
type Answers []error

// LateError says that the plugins did not come back in time.
type LateError struct {
	framework.Call
	Pod *v1.Pod
	// Back is closed when they do after all.
	Back <-chan struct{}
	// Err is why they were not waited for.
	Err error
}

// Unwrap returns why the plugins were not waited for.
func (e *LateError) Unwrap() error { return e.Err }

func (e *LateError) Error() string {
	if e.Plugin == "" {
		return fmt.Sprintf("pod %s/%s: no answer within %v", e.Pod.Namespace, e.Pod.Name, Limit)
	}
	return fmt.Sprintf("pod %s/%s: plugin %q did not come back from %s within %v", e.Pod.Namespace, e.Pod.Name, e.Plugin, e.Point, Limit)
}

// errLate is why an attempt was given up.
var errLate = errors.New("the limit is over")

// Ask asks about pods in turn, as many as there is time for. The error is a
// *LateError when the plugins were not waited for any more: they did not come
// back in time, or ctx ended. Nothing of the Town may be used then until they
// are back; else it is what it was before.
//
// The pods are asked about beside the caller, one at a time: what hangs, hangs
// there.
func (t *Town) Ask(ctx context.Context, r Rules, c Candidate, last *framework.Trial, pods []*v1.Pod) (Answers, error) {
	c.memo, c.queued = cycle.NewBudget(memoBytes).NewMemo(c.Framework), r.Queued
	begin := r.Clock.Now()
	var answers Answers
	for _, pod := range pods {
		if r.Clock.Since(begin) >= Limit {
			break
		}
		last.Clear()
		late, answer := t.askBeside(ctx, r, &c, last, pod)
		if late != nil {
			return answers, late
		}
		answers = append(answers, answer)
	}
	t.restore()
	t.lent, t.shown = false, t.shown || c.Framework.Watched()
	return answers, nil
}

// askBeside asks about one pod. What is said once the limit is over counts no
// more: that the time is over may itself be what the plugin waited for, and who
// it was is remembered from before it could hear of it.
func (t *Town) askBeside(ctx context.Context, r Rules, c *Candidate, last *framework.Trial, pod *v1.Pod) (*LateError, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan framework.Call, 1)
	timer := r.Clock.AfterFunc(Limit, func() {
		over <- last.Last()
		cancel(errLate)
	})
	defer timer.Stop()
	done := make(chan struct{})
	var said error
	r.Go(func() {
		defer close(done)
		said = t.ask(ctx, c, pod)
	})
	err := r.Wait(ctx, done)
	select {
	case call := <-over:
		if !fault.TrialBelievesTheLate {
			return &LateError{Call: call, Pod: pod, Back: done, Err: errLate}, nil
		}
	default:
	}
	if err != nil {
		return &LateError{Call: last.Last(), Pod: pod, Back: done, Err: err}, nil
	}
	return nil, said
}
