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
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/framework"
)

const (
	// maxStatusWorkers limits the concurrent patches. Binds use a client of
	// their own and do not wait for them.
	maxStatusWorkers = 8
	// maxRepeating limits how many of these patches repeat one that failed: those of pods whose
	// status is always refused leave workers for others.
	maxRepeating = 2
	// maxStatusConflicts is how often one patch is computed again because others
	// change the pod at the same time.
	maxStatusConflicts = 5
	// statusTimeout is the time that one write may take. A bind waits for it.
	statusTimeout = 10 * time.Second
)

// statusWriter patches the status of pods in the background: at most one patch of a
// pod at a time. A newer update replaces an older one that is still pending.
type statusWriter struct {
	options Options

	mu      sync.Mutex
	pending map[types.UID]*statusUpdate
	// queue, later and repetitions are pods in the order in which their pending updates are taken,
	// where these still wait there.
	queue, later, repetitions []types.UID
	inFlight                  map[types.UID]*patchInFlight
	// repeating is the number of workers with an update from repetitions.
	workers, repeating int
	// flushWaiters are closed when nothing is pending or in flight.
	flushWaiters []chan struct{}
	// known is the status that the newest answer to a patch had, or a newer one
	// that the informer delivered, until the pod is bound or gone. The version of
	// a pod in a running attempt may be older.
	known map[types.UID]podStatus
	// unanswered are the pods whose last patch failed: it may have taken effect, so that
	// known says nothing until the pod is read.
	unanswered sets.Set[types.UID]
}

// waitingPlace is where a pending update waits.
type waitingPlace int

const (
	// inQueue is the place of an update that did not fail yet.
	inQueue waitingPlace = iota
	// inLater is the place of one that failed, until it is due again.
	inLater
	// inRepetitions is its place from then on.
	inRepetitions
)

// patchInFlight is a patch that is being sent.
type patchInFlight struct {
	done chan struct{}
	// final says that the pod is being bound, or was forgotten: no other patch
	// may follow, also when this one fails.
	final bool
	// discardAnswer says that the answer is not to be stored in known.
	discardAnswer bool
	// delivered is the version of the pod that the informer delivered meanwhile.
	delivered *v1.Pod
}

func newStatusWriter(o Options) *statusWriter {
	return &statusWriter{
		options: o, pending: map[types.UID]*statusUpdate{},
		inFlight: map[types.UID]*patchInFlight{}, known: map[types.UID]podStatus{}, unanswered: sets.New[types.UID](),
	}
}

func (w *statusWriter) nominate(pod *v1.Pod, node string) {
	w.add(&statusUpdate{pod: pod, nominated: &node})
}

// add queues an update, merged with the pending one of the same pod.
func (w *statusWriter) add(u *statusUpdate) {
	w.mu.Lock()
	w.enqueue(u)
	start := w.reserveWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.runWorker)
	}
}

// enqueue is add without starting a worker. The caller holds the lock. An update that replaces
// one that failed is sent once without its wait, unless the API server asked to wait.
func (w *statusWriter) enqueue(u *statusUpdate) {
	uid := u.pod.UID
	older, ok := w.pending[uid]
	if ok {
		u.merge(older)
		u.tries, u.notBefore = older.tries, older.notBefore
	}
	if ok && older.waits == inLater && w.options.Clock.Now().Before(u.notBefore) {
		u.waits, u.due = inLater, u.notBefore
	}
	if !ok || older.waits != u.waits {
		w.queue = append(w.queue, uid)
	}
	w.pending[uid] = u
}

// forget drops all that is held of a pod.
func (w *statusWriter) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, uid)
	delete(w.pending, uid)
	w.unanswered.Delete(uid)
	if s := w.inFlight[uid]; s != nil {
		s.final, s.discardAnswer = true, true
	}
}

// observe replaces the known status by what the informer delivered, which is in
// memory anyway.
func (w *statusWriter) observe(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.inFlight[pod.UID]; s != nil {
		s.delivered = pod
	}
	if known, ok := w.known[pod.UID]; ok {
		w.known[pod.UID] = known.updatedBy(pod)
	}
}

// beginPatch registers a patch of a pod without another one. The caller holds the lock.
func (w *statusWriter) beginPatch(uid types.UID) *patchInFlight {
	s := &patchInFlight{done: make(chan struct{})}
	w.inFlight[uid] = s
	return s
}

// endPatch stores the status that the API server answered with; the zero podStatus when
// nothing was written. err says that the patch may have taken effect without an answer.
// The caller holds the lock.
func (w *statusWriter) endPatch(pod *v1.Pod, s *patchInFlight, known podStatus, err error) {
	delete(w.inFlight, pod.UID)
	close(s.done)
	switch {
	case s.discardAnswer:
		return
	case err != nil:
		w.unanswered.Insert(pod.UID)
		return
	case known.version == "":
		return
	}
	w.unanswered.Delete(pod.UID)
	known = known.sharePod(pod)
	if s.delivered != nil {
		known = known.updatedBy(s.delivered)
	}
	w.known[pod.UID] = known
}

// patchExclusively calls write while no other patch of the pod is in flight.
func (w *statusWriter) patchExclusively(pod *v1.Pod, write func() (podStatus, error)) {
	w.mu.Lock()
	for w.inFlight[pod.UID] != nil {
		done := w.inFlight[pod.UID].done
		w.mu.Unlock()
		_ = w.options.Wait(context.Background(), done) // a patch has a timeout
		w.mu.Lock()
	}
	s := w.beginPatch(pod.UID)
	w.mu.Unlock()

	known, err := write()

	w.mu.Lock()
	w.endPatch(pod, s, known, err)
	start := len(w.pending) > 0 && w.reserveWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.runWorker)
	}
}

// reserveWorker reports whether one more worker is to be started, and counts it. The
// caller holds the lock.
func (w *statusWriter) reserveWorker() bool {
	if w.workers == maxStatusWorkers {
		return false
	}
	w.workers++
	return true
}

// quiesce drops the pending update of a pod that is about to be bound and waits for
// the patch in flight. It returns the newest known status of the pod as it was decided
// about. When the answer to a patch showed a change that scheduling reads, it returns
// the older status of pod, so that the Binding fails on a conflict.
func (w *statusWriter) quiesce(pod *v1.Pod) podStatus {
	w.mu.Lock()
	delete(w.pending, pod.UID)
	s := w.inFlight[pod.UID]
	if s != nil {
		s.final = true
	}
	w.mu.Unlock()
	if s != nil {
		// The patch ends by itself, whatever happens to the bind.
		_ = w.options.Wait(context.Background(), s.done)
	}
	known := w.latest(pod)
	if !framework.SameForScheduling(pod, known.pod) {
		return podStatusOf(pod)
	}
	return known
}

// latest returns the newest known status of a pod.
func (w *statusWriter) latest(pod *v1.Pod) podStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.known[pod.UID]; ok && newerVersion(pod.ResourceVersion, known.version) == known.version {
		return known
	}
	return podStatusOf(pod)
}

// runWorker sends updates until none is left. It pauses after a failed write, to
// spare an API server in trouble, unless the API server refuses that write only.
func (w *statusWriter) runWorker() {
	for repeats := false; ; {
		w.mu.Lock()
		if repeats {
			w.repeating--
		}
		u := w.dequeue()
		if u == nil {
			w.workers--
			w.notifyFlushed()
			w.mu.Unlock()
			return
		}
		if repeats = u.waits == inRepetitions; repeats {
			w.repeating++
		}
		s := w.beginPatch(u.pod.UID)
		w.mu.Unlock()

		known, err := w.send(u)

		w.mu.Lock()
		w.endPatch(u.pod, s, known, err)
		u.tries++
		u.notBefore = w.notBefore(err)
		wait := err != nil && !s.final && w.repeat(u)
		w.mu.Unlock()
		if wait {
			w.options.Go(w.runLater)
		}
		if err != nil && !refused(err) {
			<-w.options.Clock.After(retryDelay)
		}
	}
}

// flushed returns a channel that is closed once nothing is pending or in flight, but for
// updates that failed maxFlushTries times.
func (w *statusWriter) flushed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := make(chan struct{})
	w.flushWaiters = append(w.flushWaiters, done)
	w.notifyFlushed()
	return done
}

// notifyFlushed closes flushWaiters when no worker is running and none is to run soon. The
// caller holds the lock.
func (w *statusWriter) notifyFlushed() {
	if w.workers > 0 || len(w.flushWaiters) == 0 {
		return
	}
	for _, uid := range w.later {
		if u := w.pending[uid]; u != nil && u.waits == inLater && u.tries < maxFlushTries {
			return
		}
	}
	for _, done := range w.flushWaiters {
		close(done)
	}
	w.flushWaiters = nil
}

// dequeue returns the oldest update of a pod without a patch in flight, of those that failed
// before where maxRepeating permits; nil when there is none. The caller holds the lock.
func (w *statusWriter) dequeue() *statusUpdate {
	if w.repeating < maxRepeating {
		if u := w.takeFrom(&w.repetitions, inRepetitions); u != nil {
			return u
		}
	}
	return w.takeFrom(&w.queue, inQueue)
}

// takeFrom is dequeue for one place.
func (w *statusWriter) takeFrom(uids *[]types.UID, place waitingPlace) *statusUpdate {
	for i := 0; i < len(*uids); i++ {
		uid := (*uids)[i]
		u, ok := w.pending[uid]
		ok = ok && u.waits == place
		if ok && w.inFlight[uid] != nil {
			continue
		}
		*uids = slices.Delete(*uids, i, i+1)
		if ok {
			delete(w.pending, uid)
			return u
		}
		i--
	}
	return nil
}

// +kubebuilder:rbac:groups="",resources=pods/status,verbs=patch

// send patches one pod and returns its status in the API server's answer; the zero
// podStatus when there was none to ask for. After a conflict, or a patch without an answer,
// it reads the pod first and patches only a pod that has no node. An error says that another
// try may succeed.
func (w *statusWriter) send(u *statusUpdate) (podStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	pods, current, answer := w.options.Client.CoreV1().Pods(u.pod.Namespace), w.latest(u.pod), podStatus{}
	read := w.isUnanswered(u.pod.UID)
	for range maxStatusConflicts {
		if read {
			live, err := pods.Get(ctx, u.pod.Name, metav1.GetOptions{})
			if err != nil {
				return podStatus{}, w.recordFailure(u, err)
			}
			if live.UID != u.pod.UID || live.Spec.NodeName != "" {
				return podStatus{}, nil
			}
			answer = podStatusOf(w.options.applyTransform(live))
			current = answer
		}
		patch, err := u.patch(current, metav1.NewTime(w.options.Clock.Now()))
		if patch == nil {
			return answer, err
		}
		patched, err := pods.Patch(ctx, u.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			return podStatusOf(w.options.applyTransform(patched)), nil
		}
		if !apierrors.IsConflict(err) {
			return podStatus{}, w.recordFailure(u, err)
		}
		read = true
	}
	return podStatus{}, w.recordFailure(u, errors.New("other writers change the pod all the time"))
}

// isUnanswered reports whether the pod's last patch may have taken effect without an answer.
func (w *statusWriter) isUnanswered(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unanswered.Has(uid)
}
