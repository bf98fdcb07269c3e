package binding

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Refuse writes that a pod is not scheduled, and why. nominated, where it is
// not nil, replaces status.nominatedNodeName. Nothing is written when the pod
// says so already.
func (b *Binding) SetNotScheduled(pod *v1.Pod, reason, message string, nominated *string) {
	b.status.add(&statusUpdate{pod: pod, nominated: nominated, condition: notScheduledCondition(pod, reason, message)})
}

func notScheduledCondition(pod *v1.Pod, reason, message string) *v1.PodCondition {
	return &v1.PodCondition{
		Type:               v1.PodScheduled,
		Status:             v1.ConditionFalse,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: pod.Generation,
	}
}

// mark writes at once that binding a pod failed, if the pod is still at the
// given resource version, which it is not any more afterwards: message must be
// one that it does not carry yet. It waits until no other patch of the pod is under
// way.
func (w *statusWriter) writeBindFailure(ctx context.Context, pod *v1.Pod, version, message string) error {
	n := &statusUpdate{pod: pod, condition: notScheduledCondition(pod, v1.PodReasonSchedulerError, message)}
	patch, err := n.patch(podStatus{version: version}, metav1.NewTime(w.options.Clock.Now()))
	if err != nil {
		return err
	}
	w.patchExclusively(pod, func() podStatus {
		var marked *v1.Pod
		marked, err = w.options.Client.CoreV1().Pods(pod.Namespace).
			Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return podStatus{}
		}
		return podStatusOf(w.options.applyTransform(marked))
	})
	return err
}

// Told is closed once the status of every pod says what it is to say, as far as
// the API server takes it.
func (b *Binding) StatusFlushed() <-chan struct{} { return b.status.flushed() }

// Forget drops what is remembered of a pod that is gone or bound.
func (b *Binding) Forget(uid types.UID) {
	b.status.forget(uid)
	if b.options.Journal != nil {
		b.options.Journal.Forget(uid)
	}
}

// Observe says which version of a pod without a node the informer delivered.
func (b *Binding) Observe(pod *v1.Pod) { b.status.observe(pod) }

// news is what is to be written into a pod's status.
type statusUpdate struct {
	pod       *v1.Pod
	condition *v1.PodCondition
	nominated *string
	// tries is how often the news was sent in vain.
	tries int
}

// merge adds older news that n says nothing about.
func (n *statusUpdate) merge(older *statusUpdate) {
	if n.condition == nil {
		n.condition = older.condition
	}
	if n.nominated == nil {
		n.nominated = older.nominated
	}
}

// view is what Berth knows of a pod's status: from the informer, or from the
// answer to a patch that the informer has not caught up with.
type podStatus struct {
	version   string
	nominated string
	condition *v1.PodCondition
	// like reads to scheduling as the pod does at version.
	pod *v1.Pod
}

func podStatusOf(pod *v1.Pod) podStatus {
	return podStatus{version: pod.ResourceVersion, nominated: pod.Status.NominatedNodeName, condition: conditionOf(pod, v1.PodScheduled), pod: pod}
}

// sharing lets go of a second copy of pod, which is held anyway.
func (v podStatus) sharePod(pod *v1.Pod) podStatus {
	if v.pod != nil && sameForScheduling(pod, v.pod) {
		v.pod = pod
	}
	return v
}

// replacedBy returns the view of a pod that the informer delivered where that is not
// older.
func (v podStatus) updatedBy(delivered *v1.Pod) podStatus {
	if newerVersion(delivered.ResourceVersion, v.version) == delivered.ResourceVersion {
		return podStatusOf(delivered)
	}
	return v
}

// patch returns the strategic merge patch that turns what is there into n, nil
// when it is there already. It carries the UID, so that a pod re-created under
// the same name is left alone, and the version, so that a pod that somebody
// bound meanwhile is not told that it is not scheduled.
func (n *statusUpdate) patch(there podStatus, now metav1.Time) ([]byte, error) {
	status := map[string]any{}
	if n.nominated != nil && *n.nominated != there.nominated {
		status["nominatedNodeName"] = *n.nominated
		if *n.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if n.condition != nil {
		c, old := *n.condition, there.condition
		c.LastTransitionTime = now
		if old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		if old == nil || !sameCondition(old, &c) {
			status["conditions"] = []v1.PodCondition{c}
		}
	}
	if len(status) == 0 {
		return nil, nil
	}
	metadata := map[string]any{"uid": n.pod.UID}
	if there.version != "" {
		metadata["resourceVersion"] = there.version
	}
	return json.Marshal(map[string]any{"metadata": metadata, "status": status})
}

func conditionOf(pod *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
