package binding

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// statusWorkers bounds the patches under way. Binds go before them, on a
	// client of their own.
	maxStatusWorkers = 8
	// statusTries is how often news is sent to an API server that fails.
	maxStatusTries = 10
	// statusConflicts is how often one patch is made anew for a pod that
	// others change at the same time.
	maxStatusConflicts = 5
	// statusTimeout is how long one write may take: a bind waits for it.
	statusTimeout = 10 * time.Second
)

// statusWriter patches the status of pods beside the loop: at most one patch
// a pod at a time, newer news replacing older that was not sent yet.
type statusWriter struct {
	options Options

	mu       sync.Mutex
	pending  map[types.UID]*statusUpdate
	queue    []types.UID
	inFlight map[types.UID]*patchInFlight
	workers  int
	// told are closed when nothing is left to be sent.
	flushWaiters []chan struct{}
	// known is what answers to patches told, or what the informer delivered since,
	// until the pod is bound or gone. An attempt under way may have an older version.
	known map[types.UID]podStatus
}

// sending is a patch under way.
type patchInFlight struct {
	done chan struct{}
	// last says that the pod is being bound, or forgotten: whatever becomes of
	// the patch, no other follows.
	final bool
	// forget says that the answer need not be remembered.
	discardAnswer bool
	// delivered is the version of the pod that the informer delivered meanwhile.
	delivered *v1.Pod
}

func newStatusWriter(o Options) *statusWriter {
	return &statusWriter{
		options: o, pending: map[types.UID]*statusUpdate{},
		inFlight: map[types.UID]*patchInFlight{}, known: map[types.UID]podStatus{},
	}
}

func (w *statusWriter) nominate(pod *v1.Pod, node string) {
	w.add(&statusUpdate{pod: pod, nominated: &node})
}

// put queues news, merged with what is still to be sent about the same pod.
func (w *statusWriter) add(n *statusUpdate) {
	w.mu.Lock()
	w.enqueue(n)
	start := w.reserveWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.runWorker)
	}
}

func (w *statusWriter) enqueue(n *statusUpdate) {
	uid := n.pod.UID
	if older, ok := w.pending[uid]; ok {
		n.merge(older)
	} else {
		w.queue = append(w.queue, uid)
	}
	w.pending[uid] = n
}

func (w *statusWriter) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, uid)
	delete(w.pending, uid)
	if s := w.inFlight[uid]; s != nil {
		s.final, s.discardAnswer = true, true
	}
}

// observe replaces what an answer told by what the informer has delivered, which is
// kept anyway.
func (w *statusWriter) observe(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.inFlight[pod.UID]; s != nil {
		s.delivered = pod
	}
	if told, ok := w.known[pod.UID]; ok {
		w.known[pod.UID] = told.updatedBy(pod)
	}
}

// begin registers a patch of a pod that nobody else writes to. Called with the lock.
func (w *statusWriter) beginPatch(uid types.UID) *patchInFlight {
	s := &patchInFlight{done: make(chan struct{})}
	w.inFlight[uid] = s
	return s
}

// end remembers what the answer to a patch told, the zero view when it told nothing.
// Called with the lock.
func (w *statusWriter) endPatch(pod *v1.Pod, s *patchInFlight, told podStatus) {
	delete(w.inFlight, pod.UID)
	close(s.done)
	if told.version == "" || s.discardAnswer && !fault.ViewOutlivesPod {
		return
	}
	told = told.sharePod(pod)
	if s.delivered != nil {
		told = told.updatedBy(s.delivered)
	}
	w.known[pod.UID] = told
}

// exclusively lets write patch a pod while no other patch of it is under way.
func (w *statusWriter) patchExclusively(pod *v1.Pod, write func() podStatus) {
	w.mu.Lock()
	for w.inFlight[pod.UID] != nil {
		over := w.inFlight[pod.UID].done
		w.mu.Unlock()
		_ = w.options.Wait(context.Background(), over) // the patch ends by itself
		w.mu.Lock()
	}
	s := w.beginPatch(pod.UID)
	w.mu.Unlock()

	told := write()

	w.mu.Lock()
	w.endPatch(pod, s, told)
	start := len(w.pending) > 0 && !fault.NewsBehindAMarkWaits && w.reserveWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.runWorker)
	}
}

// wantsWorker says whether one more worker is to be started, and counts it. Called with
// the lock.
func (w *statusWriter) reserveWorker() bool {
	if w.workers == maxStatusWorkers {
		return false
	}
	w.workers++
	return true
}

// settle puts the patches and the bind of one pod in order: what was not sent
// yet is dropped, what is under way is waited for. It returns the newest
// resource version that is known of the pod as it was decided about: where the
// answer to a patch told of a change that scheduling reads, the Binding is to
// fail by it.
func (w *statusWriter) quiesce(pod *v1.Pod) podStatus {
	w.mu.Lock()
	delete(w.pending, pod.UID)
	s := w.inFlight[pod.UID]
	if s != nil {
		s.final = !fault.PatchedDuringBind
	}
	w.mu.Unlock()
	if s != nil {
		// The patch ends by itself, whatever becomes of the bind.
		_ = w.options.Wait(context.Background(), s.done)
	}
	known := w.latest(pod)
	if !sameForScheduling(pod, known.pod) && !fault.ChangedPodBound {
		return podStatusOf(pod)
	}
	return known
}

// latest is the newest that is known of a pod.
func (w *statusWriter) latest(pod *v1.Pod) podStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told, ok := w.known[pod.UID]; ok && newerVersion(pod.ResourceVersion, told.version) == told.version {
		return told
	}
	return podStatusOf(pod)
}

// work sends news until there is none. A worker whose write failed pauses, so
// that an API server in trouble is left in peace.
func (w *statusWriter) runWorker() {
	for {
		w.mu.Lock()
		n := w.dequeue()
		if n == nil {
			w.workers--
			w.notifyFlushed()
			w.mu.Unlock()
			return
		}
		uid := n.pod.UID
		s := w.beginPatch(uid)
		w.mu.Unlock()

		told, err := w.send(n)

		w.mu.Lock()
		w.endPatch(n.pod, s, told)
		if n.tries++; err != nil && !s.final && n.tries < maxStatusTries {
			if next, ok := w.pending[uid]; ok {
				next.merge(n)
			} else {
				w.enqueue(n)
			}
		}
		w.mu.Unlock()
		if err != nil {
			<-w.options.Clock.After(retryDelay)
		}
	}
}

// all is closed once nothing is left to be sent.
func (w *statusWriter) flushed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make(chan struct{})
	w.flushWaiters = append(w.flushWaiters, told)
	w.notifyFlushed()
	return told
}

// tell tells who waits for it that nothing is left to be sent. Called with the
// lock.
func (w *statusWriter) notifyFlushed() {
	if w.workers > 0 {
		return
	}
	for _, told := range w.flushWaiters {
		close(told)
	}
	w.flushWaiters = nil
}

// take returns the oldest news about a pod that nobody writes to, nil when
// there is none.
func (w *statusWriter) dequeue() *statusUpdate {
	for i := 0; i < len(w.queue); i++ {
		uid := w.queue[i]
		n, ok := w.pending[uid]
		if ok && w.inFlight[uid] != nil {
			continue
		}
		w.queue = slices.Delete(w.queue, i, i+1)
		if ok {
			delete(w.pending, uid)
			return n
		}
		i--
	}
	return nil
}

// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// send patches one pod and returns what it is like then; the zero view when
// nothing was written. A pod that others changed is read and, still waiting,
// told all the same. The error says that it is worth trying again.
func (w *statusWriter) send(n *statusUpdate) (podStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	pods, there := w.options.Client.CoreV1().Pods(n.pod.Namespace), w.latest(n.pod)
	for range maxStatusConflicts {
		patch, err := n.patch(there, metav1.NewTime(w.options.Clock.Now()))
		if patch == nil {
			return podStatus{}, err
		}
		patched, err := pods.Patch(ctx, n.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			return podStatusOf(w.options.applyTransform(patched)), nil
		}
		if !apierrors.IsConflict(err) {
			return podStatus{}, w.recordFailure(n, err)
		}
		live, err := pods.Get(ctx, n.pod.Name, metav1.GetOptions{})
		if err != nil {
			return podStatus{}, w.recordFailure(n, err)
		}
		if live.UID != n.pod.UID || live.Spec.NodeName != "" {
			return podStatus{}, nil
		}
		there = podStatusOf(w.options.applyTransform(live))
	}
	return podStatus{}, w.recordFailure(n, errors.New("others change the pod all the time"))
}

// failed counts a write that failed, and returns err when another try may
// succeed.
func (w *statusWriter) recordFailure(n *statusUpdate, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	statusFailures.Inc()
	w.options.Log.Error(err, "A pod's status could not be written", "pod", klog.KObj(n.pod), "tries", n.tries+1)
	if !ambiguous(err) {
		return nil
	}
	return err
}
