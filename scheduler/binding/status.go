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
	sending map[types.UID]*sending
	workers int
	// answers are what the answers to patches said of pods, until the pod is
	// bound or forgotten.
	answers map[types.UID]standing
}

// sending is one patch under way.
type sending struct {
	done chan struct{}
	// forgotten says that nobody wants to know its answer any more.
	forgotten bool
}

// standing is what a version of a pod says of its scheduling.
type standing struct {
	version   string
	condition *v1.PodCondition
	nominated string
}

func standingOf(pod *v1.Pod) standing {
	return standing{pod.ResourceVersion, scheduled(pod), pod.Status.NominatedNodeName}
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
		sending: map[types.UID]*sending{}, answers: map[types.UID]standing{},
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
	delete(b.status.answers, uid)
	delete(b.status.waiting, uid)
	if s := b.status.sending[uid]; s != nil {
		s.forgotten = true
	}
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
		s := &sending{done: make(chan struct{})}
		w.sending[n.pod.UID] = s
		known := w.latest(n.pod)
		w.mu.Unlock()

		patched := w.send(n, known)

		w.mu.Lock()
		delete(w.sending, n.pod.UID)
		if patched != nil && !s.forgotten {
			w.answers[n.pod.UID] = standingOf(patched)
		}
		w.mu.Unlock()
		close(s.done)
	}
}

// latest is what is known of a pod now: the informer tells of a write later
// than its answer does. Called with the lock.
func (w *statusWriter) latest(pod *v1.Pod) standing {
	answer, ok := w.answers[pod.UID]
	if ok && newer(pod.ResourceVersion, answer.version) != pod.ResourceVersion {
		return answer
	}
	return standingOf(pod)
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
	s := w.sending[pod.UID]
	w.mu.Unlock()
	if s != nil {
		// The patch ends by itself, whatever becomes of the bind.
		_ = w.options.Wait(context.Background(), s.done)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest(pod).version
}

// send patches one pod and returns the answer, nil when there was nothing to
// write or it could not be written: a status that is lost is written again
// with the next attempt.
func (w *statusWriter) send(n *news, known standing) *v1.Pod {
	patch := n.patch(known, metav1.NewTime(w.options.Clock.Now()))
	if patch == nil {
		return nil
	}
	ctx := context.Background()
	patched, err := w.options.Client.CoreV1().Pods(n.pod.Namespace).
		Patch(ctx, n.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			statusFailures.Inc()
			klog.Background().Error(err, "A pod's status could not be written", "pod", klog.KObj(n.pod))
		}
		return nil
	}
	return patched
}

// patch returns the strategic merge patch that n amounts to, nil when the pod
// has it all already. It carries the UID, so that a pod re-created under the
// same name is left alone.
func (n *news) patch(known standing, now metav1.Time) []byte {
	status := map[string]any{}
	if n.nominated != nil && *n.nominated != known.nominated {
		status["nominatedNodeName"] = *n.nominated
		if *n.nominated == "" {
			status["nominatedNodeName"] = nil
		}
	}
	if c := n.condition; c != nil {
		c.LastTransitionTime = now
		if old := known.condition; old == nil || !sameCondition(old, c) {
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

func scheduled(pod *v1.Pod) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func sameCondition(a, b *v1.PodCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message && a.ObservedGeneration == b.ObservedGeneration
}
