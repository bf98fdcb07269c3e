package binding

import (
	"context"
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/framework"
)

// SetNotScheduled writes PodScheduled=False with reason and message into the pod's
// status, and nominated, where it is not nil, into status.nominatedNodeName. It
// returns at once; a worker writes, and only what the pod does not have yet.
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

// writeBindFailure writes at once that binding the pod failed, if the pod is still at
// the given resource version, so that the pod gets another one: message must differ
// from the pod's present one. It waits until no other patch of the pod is in flight.
func (w *statusWriter) writeBindFailure(ctx context.Context, pod *v1.Pod, version, message string) error {
	u := &statusUpdate{pod: pod, condition: notScheduledCondition(pod, v1.PodReasonSchedulerError, message)}
	patch, err := u.patch(podStatus{version: version}, metav1.NewTime(w.options.Clock.Now()))
	if err != nil {
		return err
	}
	w.patchExclusively(pod, func() (podStatus, error) {
		var patched *v1.Pod
		patched, err = w.options.Client.CoreV1().Pods(pod.Namespace).
			Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return podStatus{}, err
		}
		return podStatusOf(w.options.applyTransform(patched)), nil
	})
	return err
}

// StatusFlushed returns a channel that is closed when no status update is pending or
// in flight. It does not wait for those that failed so often that they are sent much later.
func (b *Binding) StatusFlushed() <-chan struct{} { return b.status.flushed() }

// Forget drops what is held of a pod that is gone or bound.
func (b *Binding) Forget(uid types.UID) {
	b.status.forget(uid)
	if b.options.Journal != nil {
		b.options.Journal.Forget(uid)
	}
}

// Observe takes in a version of a pod without a node that the informer delivered.
func (b *Binding) Observe(pod *v1.Pod) { b.status.observe(pod) }

// statusUpdate is what is to be written into a pod's status.
type statusUpdate struct {
	pod       *v1.Pod
	condition *v1.PodCondition
	nominated *string
	// tries is how often the update, or one that it replaces while that waits, failed to be sent.
	tries int
	// waits is where it waits.
	waits waitingPlace
	// due is when it is sent again, while it waits for that.
	due time.Time
	// notBefore is until when the API server asked not to be sent it.
	notBefore time.Time
}

// merge takes from older what u does not set.
func (u *statusUpdate) merge(older *statusUpdate) {
	if u.condition == nil {
		u.condition = older.condition
	}
	if u.nominated == nil {
		u.nominated = older.nominated
	}
}

// podStatus is what is known of a pod's status: from the informer, or from the answer
// to a patch that the informer has not delivered yet.
type podStatus struct {
	version   string
	nominated string
	condition *v1.PodCondition
	// pod equals the pod at version in what scheduling reads.
	pod *v1.Pod
}

func podStatusOf(pod *v1.Pod) podStatus {
	return podStatus{version: pod.ResourceVersion, nominated: pod.Status.NominatedNodeName, condition: conditionOf(pod, v1.PodScheduled), pod: pod}
}

// sharePod drops a second copy of pod when both are equal for scheduling.
func (v podStatus) sharePod(pod *v1.Pod) podStatus {
	if v.pod != nil && framework.SameForScheduling(pod, v.pod) {
		v.pod = pod
	}
	return v
}

// updatedBy returns the status of the delivered pod, unless that is older.
func (v podStatus) updatedBy(delivered *v1.Pod) podStatus {
	if newerVersion(delivered.ResourceVersion, v.version) == delivered.ResourceVersion {
		return podStatusOf(delivered)
	}
	return v
}

// patch returns the strategic merge patch that changes current into u, nil when there
// is nothing to change. It carries the UID, which protects a pod that was created
// again under the same name, and the resource version, so that a pod which another
// scheduler has bound does not get PodScheduled=False.
func (u *statusUpdate) patch(current podStatus, now metav1.Time) ([]byte, error) {
	status := map[string]any{}
	if u.nominated != nil && *u.nominated != current.nominated {
		status["nominatedNodeName"] = *u.nominated
		if *u.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if u.condition != nil {
		c, old := *u.condition, current.condition
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
	metadata := map[string]any{"uid": u.pod.UID}
	if current.version != "" {
		metadata["resourceVersion"] = current.version
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
