package binding

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
)

// reasonTakenOver is what a pod says that waited for its first attempt when the
// leader went.
const reasonLeaderHandover = "TakenOver"

// TakenOver is what came of TakeOver.
type FenceResult struct {
	// Marked is how many pods have another resource version now.
	Fenced int
	// Bound are pods that turned out to have a node, as they are now.
	Bound []*v1.Pod
	// Open are pods that could not be marked: a Binding of an earlier leader may
	// still bind them.
	Unfenced []types.UID
}

// TakeOver writes into the status of pods that wait, so that they have another
// resource version: a Binding that an earlier leader sent carries the one before
// and fails, however late it arrives. What the pods say of themselves stays but
// for the time at which that was looked at last; those that said nothing say that
// epoch took them over. It returns when all were tried, or ctx ends.
func (b *Binding) FencePods(ctx context.Context, pods []*v1.Pod, epoch int64) FenceResult {
	if fault.LateBindingOfOthersPasses || len(pods) == 0 {
		return FenceResult{}
	}
	t := &fencing{done: make(chan struct{}), pods: pods, workers: min(MaxInFlight, len(pods))}
	for range t.workers {
		b.options.Go(func() {
			for pod := t.next(ctx); pod != nil; pod = t.next(ctx) {
				live, marked := b.status.fence(ctx, pod, epoch)
				t.record(live, marked)
			}
			t.workerDone()
		})
	}
	// The workers end with ctx.
	_ = b.options.Wait(context.WithoutCancel(ctx), t.done)
	return t.result
}

// takeover is a TakeOver under way.
type fencing struct {
	// over is closed when all workers have ended.
	done chan struct{}

	mu      sync.Mutex
	workers int
	pods    []*v1.Pod // that are still to be marked
	result  FenceResult
}

// next returns the pod that is to be marked next; nil when there is none, or ctx has
// ended.
func (t *fencing) next(ctx context.Context) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.pods) == 0 || ctx.Err() != nil {
		return nil
	}
	pod := t.pods[0]
	t.pods = t.pods[1:]
	return pod
}

// note counts what came of a pod.
func (t *fencing) record(live *v1.Pod, marked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case live == nil && marked:
		t.result.Fenced++
	case live == nil:
	case live.Spec.NodeName != "":
		t.result.Bound = append(t.result.Bound, live)
	default:
		t.result.Unfenced = append(t.result.Unfenced, live.UID)
	}
}

// end notes that a worker has ended.
func (t *fencing) workerDone() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.workers--; t.workers == 0 {
		close(t.done)
	}
}

// takeOver marks one pod. A pod that is returned is not marked: it has a node,
// or all was in vain. A pod that is gone is neither returned nor marked.
func (w *statusWriter) fence(ctx context.Context, pod *v1.Pod, epoch int64) (left *v1.Pod, marked bool) {
	w.patchExclusively(pod, func() (told podStatus) {
		left, told = w.patchFence(ctx, pod, epoch)
		marked = told.version != ""
		return told
	})
	return left, marked
}

// patchTakenOver is takeOver while no other patch of the pod is under way. It returns
// what the answer told; the zero view for a pod that is not marked.
func (w *statusWriter) patchFence(ctx context.Context, pod *v1.Pod, epoch int64) (left *v1.Pod, told podStatus) {
	pods, live := w.options.Client.CoreV1().Pods(pod.Namespace), pod
	at := w.options.Clock.Now()
	for try := 0; ; try++ {
		patched, err := pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, fencePatch(live, epoch, metav1.NewTime(at)), metav1.PatchOptions{}, "status")
		switch {
		case err == nil && patched.ResourceVersion != live.ResourceVersion:
			return nil, podStatusOf(w.options.applyTransform(patched))
		case err == nil:
			// It was looked at within this very second: times have no parts of one.
			at = at.Add(time.Second)
			continue
		case apierrors.IsNotFound(err):
			return nil, podStatus{}
		case apierrors.IsConflict(err):
			if live, err = pods.Get(ctx, pod.Name, metav1.GetOptions{}); err == nil {
				switch {
				case live.UID != pod.UID:
					return nil, podStatus{}
				case live.Spec.NodeName != "":
					return live, podStatus{}
				}
			} else if apierrors.IsNotFound(err) {
				return nil, podStatus{}
			} else {
				live = pod
			}
		}
		if err != nil && (!ambiguous(err) || try >= maxStatusTries || !w.pause(ctx)) {
			statusFailures.Inc()
			klog.FromContext(ctx).Error(err, "A pod that waits could not be marked as taken over", "pod", klog.KObj(pod), "tries", try+1)
			return live, podStatus{}
		}
	}
}

func (w *statusWriter) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.options.Clock.After(retryDelay):
		return true
	}
}

// takeoverPatch changes a pod that has no node at the version that is known, and
// nothing that it says.
func fencePatch(pod *v1.Pod, epoch int64, now metav1.Time) []byte {
	condition := conditionOf(pod, v1.PodScheduled).DeepCopy()
	if condition == nil {
		// No error, and no refusal, upon which an autoscaler might act.
		condition = notScheduledCondition(pod, reasonLeaderHandover, fmt.Sprintf("the scheduler of epoch %d took over before the pod was tried", epoch))
		condition.Status, condition.LastTransitionTime = v1.ConditionUnknown, now
	}
	condition.LastProbeTime = now
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []v1.PodCondition{*condition}},
	})
	if err != nil {
		panic(err) // a condition is texts and times
	}
	return patch
}
