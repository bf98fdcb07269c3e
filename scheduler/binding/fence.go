package binding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/framework"
	"github.com/berthdev/berth/scheduler/leadership"
)

// reasonLeaderHandover is the reason of PodScheduled=Unknown of a pod that a new
// leader fenced before the pod's first attempt.
const reasonLeaderHandover = "LeaderHandover"

// fenceTimeout is how long one request of a fence may take, since it may be lost: no pod is
// scheduled before the last fence. The API server waits ten seconds for a webhook that hangs, by
// default.
const fenceTimeout = 15 * time.Second

// maxFenceTries is how often the status of one pod is sent again while the API server fails, a second
// apart, or others change the pod.
const maxFenceTries = 10

// errNotFenced is why a pod is not fenced whose status the API server accepts.
var errNotFenced = errors.New("the pod keeps its resource version: does a webhook undo changes of its status?")

// FenceResult is the result of FencePods.
type FenceResult struct {
	// Fenced is the number of pods that have another resource version now.
	Fenced int
	// Bound are pods that have a node, in their live version.
	Bound []*v1.Pod
	// Unfenced are pods whose status could not be written: a Binding of an
	// earlier leader may still bind them.
	Unfenced []types.UID
}

// FencePods writes into the status of pods without a node, so that they have another
// resource version: a Binding that an earlier leader sent carries the old one and
// fails, however late it arrives. It changes only lastProbeTime of the condition
// PodScheduled; a pod without the condition gets PodScheduled=Unknown with the
// epoch. It returns when all pods were tried, or ctx ends.
func (b *Binding) FencePods(ctx context.Context, pods []*v1.Pod, epoch int64) FenceResult {
	if len(pods) == 0 {
		return FenceResult{}
	}
	f := &fencing{}
	framework.ForEach(ctx, framework.Runtime{Go: b.options.Go, Wait: b.options.Wait}, MaxInFlight, pods, func(pod *v1.Pod) {
		f.record(b.status.fence(ctx, pod, epoch))
	})
	return f.result
}

// fencing is a running FencePods.
type fencing struct {
	mu     sync.Mutex
	result FenceResult
}

// record adds the outcome for one pod to the result.
func (f *fencing) record(live *v1.Pod, fenced bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case live == nil && fenced:
		f.result.Fenced++
	case live == nil:
	case live.Spec.NodeName != "":
		f.result.Bound = append(f.result.Bound, live)
	default:
		f.result.Unfenced = append(f.result.Unfenced, live.UID)
	}
}

// fence fences one pod. It returns a pod that it could not fence: one that has a node,
// or one whose status it failed to write. A pod that is gone is neither returned nor
// fenced.
func (w *statusWriter) fence(ctx context.Context, pod *v1.Pod, epoch int64) (unfenced *v1.Pod, fenced bool) {
	w.patchExclusively(pod, func() (podStatus, error) {
		var answer podStatus
		unfenced, answer = w.patchFence(ctx, pod, epoch)
		fenced = answer.version != ""
		return answer, nil // the fence changes nothing that a statusUpdate does
	})
	return unfenced, fenced
}

// patchFence is fence while no other patch of the pod is in flight. answer is the
// status in the API server's answer; the zero podStatus when the pod is not fenced.
func (w *statusWriter) patchFence(ctx context.Context, pod *v1.Pod, epoch int64) (unfenced *v1.Pod, answer podStatus) {
	pods, live := w.options.Client.CoreV1().Pods(pod.Namespace), pod
	at := w.options.Clock.Now()
	for try := 0; ; try++ {
		patched, err := limited(ctx, func(ctx context.Context) (*v1.Pod, error) {
			return pods.Patch(ctx, pod.Name, types.StrategicMergePatchType, fencePatch(live, epoch, metav1.NewTime(at)), metav1.PatchOptions{}, "status")
		})
		switch {
		case err == nil && patched.ResourceVersion != live.ResourceVersion:
			return nil, podStatusOf(w.options.applyTransform(patched))
		case err == nil:
			// lastProbeTime has this second already, since API times have no fractions, or a webhook
			// undid the patch.
			at, err = at.Add(time.Second), errNotFenced
			if try == 0 {
				continue
			}
		case apierrors.IsNotFound(err):
			return nil, podStatus{}
		case apierrors.IsConflict(err):
			var readErr error
			live, readErr = limited(ctx, func(ctx context.Context) (*v1.Pod, error) { return pods.Get(ctx, pod.Name, metav1.GetOptions{}) })
			switch {
			case apierrors.IsNotFound(readErr):
				return nil, podStatus{}
			case readErr != nil:
				live, err = pod, readErr
			case live.UID != pod.UID:
				return nil, podStatus{}
			case live.Spec.NodeName != "":
				return live, podStatus{}
			case try < maxFenceTries:
				continue // at once: others may change the pod again
			}
		}
		// Where the Lease only seems to be too old, it is renewed soon; otherwise ctx ends. A pod
		// without a fence would cost the new leader a minute.
		again := ambiguous(err) || errors.Is(err, leadership.ErrNotLeading) || errors.Is(err, errNotFenced)
		if !again || try >= maxFenceTries || !w.pause(ctx) {
			statusFailures.Inc()
			klog.FromContext(ctx).Error(err, "Cannot fence a pending pod", "pod", klog.KObj(pod), "tries", try+1)
			return live, podStatus{}
		}
	}
}

// limited sends one request of a fence, which fails after fenceTimeout.
func limited(ctx context.Context, send func(context.Context) (*v1.Pod, error)) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	return send(ctx)
}

// pause waits for retryDelay and reports false when ctx ends first.
func (w *statusWriter) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-w.options.Clock.After(retryDelay):
		return true
	}
}

// fencePatch returns the patch that gives a pod another resource version, at the
// version of pod, and keeps what its condition says.
func fencePatch(pod *v1.Pod, epoch int64, now metav1.Time) []byte {
	condition := conditionOf(pod, v1.PodScheduled).DeepCopy()
	if condition == nil {
		// Unknown: not an error, nor a rejection to which an autoscaler would react.
		condition = notScheduledCondition(pod, reasonLeaderHandover, fmt.Sprintf("the scheduler with leader epoch %d took over before the pod was tried", epoch))
		condition.Status, condition.LastTransitionTime = v1.ConditionUnknown, now
	}
	condition.LastProbeTime = now
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status":   map[string]any{"conditions": []v1.PodCondition{*condition}},
	})
	if err != nil {
		panic(err) // a condition consists of strings and times
	}
	return patch
}
