package binding

import (
	"context"
	"encoding/json"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// statusWorkers bounds the patches under way. Binds go before them, on a
// client of their own.
const statusWorkers = 8

// statusWriter patches the status of pods beside the loop: at most one patch
// a pod at a time, newer news replacing older that was not sent yet.
type statusWriter struct {
	options Options

	mu      sync.Mutex
	waiting map[types.UID]*news
	order   []types.UID
	sending map[types.UID]chan struct{}
	workers int
	// versions are the newest resource versions that answers to patches told,
	// until the pod is bound or forgotten.
	versions map[types.UID]string
}

// news is what is to be written into a pod's status.
type news struct {
	pod       *v1.Pod
	condition *v1.PodCondition
	nominated *string
}

func newStatusWriter(o Options) *statusWriter {
	return &statusWriter{
		options: o, waiting: map[types.UID]*news{},
		sending: map[types.UID]chan struct{}{}, versions: map[types.UID]string{},
	}
}

// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// Refuse writes that a pod is not scheduled, and why. nominated, where it is
// not nil, replaces status.nominatedNodeName. Nothing is written when the pod
// says so already.
func (b *Binding) Refuse(pod *v1.Pod, reason, message string, nominated *string) {
	b.status.put(&news{pod: pod, nominated: nominated, condition: &v1.PodCondition{
		Type:               v1.PodScheduled,
		Status:             v1.ConditionFalse,
		Reason:             reason,
		Message:            message,
		ObservedGeneration: pod.Generation,
	}})
}

// Forget drops what is remembered of a pod that is gone or bound.
func (b *Binding) Forget(uid types.UID) {
	b.status.mu.Lock()
	defer b.status.mu.Unlock()
	delete(b.status.versions, uid)
	delete(b.status.waiting, uid)
}

func (w *statusWriter) nominate(pod *v1.Pod, node string) {
	if pod.Status.NominatedNodeName != node {
		w.put(&news{pod: pod, nominated: &node})
	}
}

// put queues news, merged with what is still to be sent about the same pod.
func (w *statusWriter) put(n *news) {
	uid := n.pod.UID
	w.mu.Lock()
	if old, ok := w.waiting[uid]; ok {
		if n.condition == nil {
			n.condition = old.condition
		}
		if n.nominated == nil {
			n.nominated = old.nominated
		}
	} else {
		w.order = append(w.order, uid)
	}
	w.waiting[uid] = n
	start := w.workers < statusWorkers
	if start {
		w.workers++
	}
	w.mu.Unlock()
	if start {
		w.options.Go(w.work)
	}
}

// work sends news until there is none.
func (w *statusWriter) work() {
	for {
		w.mu.Lock()
		n := w.take()
		if n == nil {
			w.workers--
			w.mu.Unlock()
			return
		}
		sent := make(chan struct{})
		w.sending[n.pod.UID] = sent
		w.mu.Unlock()

		version := w.send(n)

		w.mu.Lock()
		delete(w.sending, n.pod.UID)
		if version != "" {
			w.versions[n.pod.UID] = version
		}
		w.mu.Unlock()
		close(sent)
	}
}

// take returns the oldest news about a pod that nobody writes to, nil when
// there is none.
func (w *statusWriter) take() *news {
	for i, uid := range w.order {
		n, ok := w.waiting[uid]
		if ok && w.sending[uid] != nil {
			continue
		}
		w.order = append(w.order[:i:i], w.order[i+1:]...)
		if !ok {
			return w.take()
		}
		delete(w.waiting, uid)
		return n
	}
	return nil
}

// settle puts the patches and the bind of one pod in order: what was not sent
// yet is dropped, what is under way is waited for. It returns the newest
// resource version that is known of the pod.
func (w *statusWriter) settle(pod *v1.Pod) string {
	w.mu.Lock()
	delete(w.waiting, pod.UID)
	sending := w.sending[pod.UID]
	w.mu.Unlock()
	if sending != nil {
		<-sending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if patched, ok := w.versions[pod.UID]; ok {
		return newer(pod.ResourceVersion, patched)
	}
	return pod.ResourceVersion
}

// send patches one pod and returns its new resource version, empty when there
// was nothing to write or it could not be written: a status that is lost is
// written again with the next attempt.
func (w *statusWriter) send(n *news) string {
	patch := n.patch(metav1.NewTime(w.options.Clock.Now()))
	if patch == nil {
		return ""
	}
	ctx := context.Background()
	patched, err := w.options.Client.CoreV1().Pods(n.pod.Namespace).
		Patch(ctx, n.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			statusFailures.Inc()
			klog.Background().Error(err, "A pod's status could not be written", "pod", klog.KObj(n.pod))
		}
		return ""
	}
	return patched.ResourceVersion
}

// patch returns the strategic merge patch that n amounts to, nil when the pod
// has it all already. It carries the UID, so that a pod re-created under the
// same name is left alone.
func (n *news) patch(now metav1.Time) []byte {
	status := map[string]any{}
	if n.nominated != nil && *n.nominated != n.pod.Status.NominatedNodeName {
		status["nominatedNodeName"] = *n.nominated
		if *n.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if c := n.condition; c != nil {
		c.LastTransitionTime = now
		if old := conditionOf(n.pod, c.Type); old == nil || !sameCondition(old, c) {
			if old != nil && old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			status["conditions"] = []*v1.PodCondition{c}
		}
	}
	if len(status) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.pod.UID}, "status": status})
	if err != nil {
		return nil
	}
	return patch
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
