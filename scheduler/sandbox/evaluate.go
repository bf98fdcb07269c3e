package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berthdev/berth/scheduler/cycle"
	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
)

// Timeout bounds the time for the pods of one evaluation: after it, no further pod is
// begun. It also bounds the time for each pod.
const Timeout = 2 * time.Second

// equivalenceCacheBytes bounds the equivalence cache of one evaluation.
const equivalenceCacheBytes = 32 << 20

// Candidate is the plugins of a profile, built on a Cluster.
type Candidate struct {
	Framework *framework.Framework
	// Trial is that of the Framework.
	Trial                    *framework.Trial
	PercentageOfNodesToScore int32
	// NamespaceAllowed says whether the profile may schedule pods of a namespace; nil
	// means every namespace.
	NamespaceAllowed func(namespace string) bool
}

// Results are the results of pods, in their order: nil for a pod that fits.
type Results []error

// LateError says that plugins did not return in time, or that the context ended first.
type LateError struct {
	framework.Call
	Pod *v1.Pod
	// Watch ends when the plugins have returned after all.
	Watch *framework.CallWatch
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

// Rejected reports whether the plugins rejected the pod of a result, rather than failed.
func Rejected(result error) bool {
	var rejected *RejectedError
	return errors.As(result, &rejected)
}

// RejectedError says why a pod would stay pending. Any other error is a plugin's failure.
type RejectedError struct{ Message string }

func (e *RejectedError) Error() string { return e.Message }

// evaluation is one Evaluate.
type evaluation struct {
	Candidate
	scheduler *Scheduler
	// previous is the last pod that was sorted.
	previous fwk.QueuedEntityInfo
}

// Evaluate runs the plugins for pods in order, for as many as there is time for. It uses
// the code of the scheduling cycle up to the selected node. The error is a *LateError if it
// stopped waiting for the plugins: they did not return in time, or ctx ended. After that
// error the Cluster must not be used until they have returned; otherwise it is as before
// the call.
//
// The plugins run concurrently to the caller, for one pod at a time, so that a plugin
// that hangs does not block the caller.
func (c *Cluster) Evaluate(ctx context.Context, candidate Candidate, pods []*v1.Pod) (Results, error) {
	e := &evaluation{Candidate: candidate, scheduler: &Scheduler{
		cluster: c, framework: candidate.Framework, percentageOfNodesToScore: candidate.PercentageOfNodesToScore,
		equivalenceCache: cycle.NewBudget(equivalenceCacheBytes).NewEquivalenceCache(candidate.Framework),
	}}
	begin := e.Framework.Clock.Now()
	var results Results
	for _, pod := range pods {
		if e.Framework.Clock.Since(begin) >= Timeout {
			break
		}
		e.Trial.Clear()
		late, result := e.evaluateAsync(ctx, pod)
		if late != nil {
			return results, late
		}
		results = append(results, result)
	}
	c.reset()
	c.inUse, c.exposed = false, c.exposed || e.Framework.HasOutOfTreePlugins()
	return results, nil
}

// evaluateAsync evaluates one pod. A result after Timeout does not count, since the plugin
// may have waited for the end of its context. The plugin's name is taken before the
// context ends, because afterwards another plugin may already run.
func (e *evaluation) evaluateAsync(ctx context.Context, pod *v1.Pod) (*LateError, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timedOut := make(chan framework.Call, 1)
	timer := e.Framework.Clock.AfterFunc(Timeout, func() {
		timedOut <- e.Trial.LastCall()
		cancel(errTimeout)
	})
	defer timer.Stop()
	watch := e.Framework.NewCallWatch()
	var result error
	watch.Go(func() { result = e.evaluate(ctx, pod) })
	err := e.Framework.Wait(ctx, watch.Done())
	select {
	case call := <-timedOut:
		return &LateError{Call: call, Pod: pod, Watch: watch, Err: errTimeout}, nil
	default:
	}
	if err != nil {
		return &LateError{Call: e.Trial.LastCall(), Pod: pod, Watch: watch, Err: err}, nil
	}
	if goexit := watch.Goexit(e.Trial.LastCall()); goexit != nil {
		return nil, goexit
	}
	return nil, result
}

// evaluate runs the plugins for one pod and returns nil if the pod fits on a node.
func (e *evaluation) evaluate(ctx context.Context, pod *v1.Pod) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the attempt panicked: %v", r)
		}
	}()
	if e.NamespaceAllowed != nil && !e.NamespaceAllowed(pod.Namespace) {
		return &RejectedError{"spec.allowedNamespaces does not match its namespace"}
	}
	cluster := e.scheduler.cluster
	runs := pod.Spec.NodeName != ""
	if runs {
		// A running pod is evaluated without the resources that it uses, and then added
		// again.
		cluster.cache.RemovePodByUID(pod.UID)
		defer cluster.cache.SetPod(pod)
	}
	if runs {
		pod = withoutNode(pod)
	}
	if err := e.checkQueueSort(pod); err != nil {
		return err
	}
	gate, status := e.scheduler.RunPreEnqueuePlugins(ctx, pod)
	if status.Code() == fwk.Error {
		return status.AsError()
	} else if gate != "" {
		return &RejectedError{fmt.Sprintf("gated by PreEnqueue plugin %s: %s", gate, status.Message())}
	}
	placement, err := e.scheduler.runCycle(ctx, pod)
	var fitErr *framework.FitError
	switch {
	case errors.As(err, &fitErr), errors.Is(err, cycle.ErrNoNodes):
		return &RejectedError{err.Error()}
	case err != nil || runs:
		return err
	}
	// Its resources are taken for later pods.
	cluster.assumed = append(cluster.assumed, pod)
	return e.scheduler.Assume(pod, placement.Node)
}

// checkQueueSort lets the QueueSort plugin compare a pod with the previous one. The error
// says that the plugin panicked or did not return.
func (e *evaluation) checkQueueSort(pod *v1.Pod) error {
	entity := queue.NewQueuedEntity(pod, pod.CreationTimestamp.Time)
	if e.previous != nil {
		e.Framework.Less(entity, e.previous)
	}
	e.previous = entity
	return e.Framework.QueueSortFault()
}

// withoutNode returns a copy of a running pod as it was while it was pending.
func withoutNode(pod *v1.Pod) *v1.Pod {
	before := *pod
	before.Spec.NodeName, before.Status.NominatedNodeName = "", ""
	return &before
}
