package hints

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/queue"
	"github.com/berthdev/berth/scheduler/sandbox/log"
)

// verdict has the nodes for which the plugin does not refuse the pod.
type verdict struct {
	pod   *v1.Pod
	nodes sets.Set[string]
}

// counts show whether the changes tested the hints at all.
type counts struct {
	// Changes happened while at least one refused pod was pending. BecameFeasible of them made the
	// first node feasible for a pod, NewNodes one more.
	Changes, BecameFeasible, NewNodes int
	// Requeued are pods that a change requeued, InVain those of them for which no node became
	// feasible.
	Requeued, InVain int
}

func (c *counts) add(other counts) {
	c.Changes += other.Changes
	c.BecameFeasible += other.BecameFeasible
	c.NewNodes += other.NewNodes
	c.Requeued += other.Requeued
	c.InVain += other.InVain
}

// missedRequeue says that a pod is not requeued although a node became feasible.
type missedRequeue struct {
	pod   *v1.Pod
	nodes []string
}

func (f *missedRequeue) Error() string {
	return fmt.Sprintf("pod %s/%s was not requeued, though the plugin does not refuse it for %v any more", f.pod.Namespace, f.pod.Name, f.nodes)
}

// apply applies one op. The error is a *missedRequeue where a pod should have been requeued.
func (env *testEnv) apply(ctx context.Context, op log.Op) error {
	before := maps.Clone(env.waiting)
	if err := env.deliver(ctx, op); err != nil {
		return err
	}
	env.cache.UpdateSnapshot()
	if err := env.check(ctx, op, before); err != nil {
		return err
	}
	return env.retry(ctx)
}

// deliver makes the change, as the API server would, and calls the event handlers.
func (env *testEnv) deliver(ctx context.Context, op log.Op) error {
	env.version++
	object := op.Object.DeepCopyObject().(log.Object)
	object.SetResourceVersion(strconv.Itoa(env.version))
	pod, isPod := object.(*v1.Pod)
	if isPod && op.Kind == log.Schedule && pod.Spec.NodeName != "" {
		// The event handlers would take it for a bound pod. But the plugin NodeName exists for
		// it.
		env.queue.Add(ctx, pod)
		return nil
	}
	informer := env.informers[reflect.TypeOf(object)]
	if op.Kind != log.Delete {
		return informer.Apply(object)
	}
	if isPod {
		env.queue.Delete(pod.UID)
		delete(env.waiting, pod.UID)
	}
	return informer.Remove(object)
}

// check compares the queue with the plugin's verdicts on the pending pods.
func (env *testEnv) check(ctx context.Context, op log.Op, before map[types.UID]verdict) error {
	places := env.queue.Places()
	var becameFeasible bool
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		place, queued := places[uid]
		if !queued {
			delete(env.waiting, uid)
			continue
		}
		was := before[uid]
		pod := env.latest(was.pod)
		now, err := env.evaluate(ctx, pod)
		if err != nil {
			return err
		}
		env.waiting[uid] = now
		feasible := now.nodes.Difference(was.nodes)
		waits := place == queue.Unschedulable || place == queue.Gated
		switch {
		case waits && len(feasible) > 0:
			return &missedRequeue{pod, sets.List(feasible)}
		case !waits && len(feasible) == 0:
			env.counts.InVain++
		}
		if !waits {
			env.counts.Requeued++
		}
		if len(feasible) > 0 {
			env.counts.NewNodes++
			becameFeasible = becameFeasible || len(was.nodes) == 0
		}
	}
	if len(before) > 0 {
		env.counts.Changes++
	}
	if becameFeasible {
		env.counts.BecameFeasible++
	}
	return nil
}

// latest is the pod as the API server has it.
func (env *testEnv) latest(pod *v1.Pod) *v1.Pod {
	if now, known, err := env.informers[reflect.TypeOf(pod)].store.Get(pod); err == nil && known {
		return now.(*v1.Pod)
	}
	return pod
}

// evaluate runs the plugin for every node, as an attempt does.
func (env *testEnv) evaluate(ctx context.Context, pod *v1.Pod) (verdict, error) {
	v := verdict{pod: pod, nodes: sets.New[string]()}
	f := env.profile.Framework
	if gate, _ := f.RunPreEnqueuePlugins(ctx, pod, "", nil); gate != "" {
		return v, nil
	}
	state := framework.NewCycleState()
	narrowed, status, _ := f.RunPreFilterPlugins(ctx, state, pod)
	if status.IsRejected() {
		return v, nil
	}
	if !status.IsSuccess() {
		return v, status.AsError()
	}
	for _, node := range env.cache.Snapshot().Nodes() {
		name := node.Node().Name
		if !narrowed.AllNodes() && !narrowed.NodeNames.Has(name) {
			continue
		}
		status := f.RunFilterPluginsWithNominatedPods(ctx, state, pod, node)
		switch {
		case status.IsSuccess():
			v.nodes.Insert(name)
		case status.IsError():
			return v, status.AsError()
		}
	}
	return v, nil
}

// retry attempts all pods in the queues once. Pods that were pending before have just been
// evaluated.
func (env *testEnv) retry(ctx context.Context) error {
	env.clock.Step(time.Hour)
	env.queue.Tick(ctx)
	for {
		attempt := env.queue.TryPop()
		if attempt == nil {
			break
		}
		now, evaluated := env.waiting[attempt.Pod.UID]
		if !evaluated {
			var err error
			if now, err = env.evaluate(ctx, attempt.Pod); err != nil {
				return fmt.Errorf("pod %s/%s: %w", attempt.Pod.Namespace, attempt.Pod.Name, err)
			}
		}
		delete(env.waiting, attempt.Pod.UID)
		switch {
		case len(now.nodes) < env.cache.Snapshot().Len():
			env.waiting[attempt.Pod.UID] = now
			attempt.Refused(ctx, sets.New(env.plugin), nil)
		case attempt.Pod.Status.NominatedNodeName != "":
			// It is pending until it gets the node that it is nominated for.
			attempt.Refused(ctx, sets.New("AnotherPlugin"), nil)
		default:
			attempt.Done()
			env.finished = append(env.finished, attempt.Pod)
		}
	}
	for uid, place := range env.queue.Places() {
		if _, known := env.waiting[uid]; place == queue.Gated && !known {
			env.waiting[uid] = verdict{pod: env.gatedPod(uid), nodes: sets.New[string]()}
		}
	}
	return nil
}

func (env *testEnv) gatedPod(uid types.UID) *v1.Pod {
	for _, object := range env.informers[reflect.TypeFor[*v1.Pod]()].store.List() {
		if pod := object.(*v1.Pod); pod.UID == uid {
			return pod
		}
	}
	return nil
}
