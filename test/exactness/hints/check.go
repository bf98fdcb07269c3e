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

// verdict is what the plugin says of a pod: the nodes that it does not keep
// from it.
type verdict struct {
	pod   *v1.Pod
	nodes sets.Set[string]
}

// counts say what the changes were about: a hint that is never put to the
// proof is not proved.
type counts struct {
	// Changes happened while at least one refused pod waited. After Flips of
	// them a pod found a node that had none before, after Openings one more.
	Changes, Flips, Openings int
	// Woken are pods that a change woke, Vain those of them for which no node
	// had opened.
	Woken, Vain int
}

func (c *counts) add(other counts) {
	c.Changes += other.Changes
	c.Flips += other.Flips
	c.Openings += other.Openings
	c.Woken += other.Woken
	c.Vain += other.Vain
}

// forgotten says that a pod waits on, though a node has opened to it.
type forgotten struct {
	pod   *v1.Pod
	nodes []string
}

func (f *forgotten) Error() string {
	return fmt.Sprintf("pod %s/%s was not woken, though the plugin keeps it from %v no more", f.pod.Namespace, f.pod.Name, f.nodes)
}

// do lets one thing happen. The error is a *forgotten when a pod should have
// been woken by it.
func (w *world) do(ctx context.Context, op log.Op) error {
	before := maps.Clone(w.waiting)
	if err := w.tell(ctx, op); err != nil {
		return err
	}
	w.cache.UpdateSnapshot()
	if err := w.check(ctx, op, before); err != nil {
		return err
	}
	return w.retry(ctx)
}

// tell makes the change, as the API server would, and lets it be heard of.
func (w *world) tell(ctx context.Context, op log.Op) error {
	w.version++
	object := op.Object.DeepCopyObject().(log.Object)
	object.SetResourceVersion(strconv.Itoa(w.version))
	pod, isPod := object.(*v1.Pod)
	if isPod && op.Kind == log.Schedule && pod.Spec.NodeName != "" {
		// The intake takes it for a pod that runs. But NodeName is there to
		// judge it.
		w.queue.Add(ctx, pod)
		return nil
	}
	informer := w.informers[reflect.TypeOf(object)]
	if op.Kind != log.Delete {
		return informer.Apply(object)
	}
	if isPod {
		w.queue.Delete(pod.UID)
		delete(w.waiting, pod.UID)
	}
	return informer.Remove(object)
}

// check holds the queue to what the plugin says now of the pods that waited.
func (w *world) check(ctx context.Context, op log.Op, before map[types.UID]verdict) error {
	places := w.queue.Places()
	var flipped bool
	for _, uid := range slices.Sorted(maps.Keys(before)) {
		place, waits := places[uid]
		if !waits {
			delete(w.waiting, uid)
			continue
		}
		was := before[uid]
		pod := w.newest(was.pod)
		now, err := w.judge(ctx, pod)
		if err != nil {
			return err
		}
		w.waiting[uid] = now
		opened := now.nodes.Difference(was.nodes)
		asleep := place == queue.Unschedulable || place == queue.Gated
		switch {
		case asleep && len(opened) > 0:
			return &forgotten{pod, sets.List(opened)}
		case !asleep && len(opened) == 0:
			w.counts.Vain++
		}
		if !asleep {
			w.counts.Woken++
		}
		if len(opened) > 0 {
			w.counts.Openings++
			flipped = flipped || len(was.nodes) == 0
		}
	}
	if len(before) > 0 {
		w.counts.Changes++
	}
	if flipped {
		w.counts.Flips++
	}
	return nil
}

// newest is the pod as the API server has it.
func (w *world) newest(pod *v1.Pod) *v1.Pod {
	if now, known, err := w.informers[reflect.TypeOf(pod)].store.Get(pod); err == nil && known {
		return now.(*v1.Pod)
	}
	return pod
}

// judge asks the plugin about every node, as an attempt does.
func (w *world) judge(ctx context.Context, pod *v1.Pod) (verdict, error) {
	v := verdict{pod: pod, nodes: sets.New[string]()}
	f := w.profile.Framework
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
	for _, node := range w.cache.Snapshot().Nodes() {
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

// retry tries all pods that may be tried, once. Those that waited have just
// been judged.
func (w *world) retry(ctx context.Context) error {
	w.clock.Step(time.Hour)
	w.queue.Tick(ctx)
	for {
		attempt := w.queue.TryPop()
		if attempt == nil {
			break
		}
		now, judged := w.waiting[attempt.Pod.UID]
		if !judged {
			var err error
			if now, err = w.judge(ctx, attempt.Pod); err != nil {
				return fmt.Errorf("pod %s/%s: %w", attempt.Pod.Namespace, attempt.Pod.Name, err)
			}
		}
		delete(w.waiting, attempt.Pod.UID)
		switch {
		case len(now.nodes) < w.cache.Snapshot().Len():
			w.waiting[attempt.Pod.UID] = now
			attempt.Refused(ctx, sets.New(w.plugin), nil)
		case attempt.Pod.Status.NominatedNodeName != "":
			// It still waits for the room that it was promised.
			attempt.Refused(ctx, sets.New("AnotherPlugin"), nil)
		default:
			attempt.Done()
			w.gone = append(w.gone, attempt.Pod)
		}
	}
	for uid, place := range w.queue.Places() {
		if _, known := w.waiting[uid]; place == queue.Gated && !known {
			w.waiting[uid] = verdict{pod: w.gated(uid), nodes: sets.New[string]()}
		}
	}
	return nil
}

func (w *world) gated(uid types.UID) *v1.Pod {
	for _, object := range w.informers[reflect.TypeFor[*v1.Pod]()].store.List() {
		if pod := object.(*v1.Pod); pod.UID == uid {
			return pod
		}
	}
	return nil
}
