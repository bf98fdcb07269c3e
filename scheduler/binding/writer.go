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
	statusWorkers = 8
	// statusTries is how often news is sent to an API server that fails.
	statusTries = 10
	// statusConflicts is how often one patch is made anew for a pod that
	// others change at the same time.
	statusConflicts = 5
	// statusTimeout is how long one write may take: a bind waits for it.
	statusTimeout = 10 * time.Second
)

// statusWriter patches the status of pods beside the loop: at most one patch
// a pod at a time, newer news replacing older that was not sent yet.
type statusWriter struct {
	options Options

	mu      sync.Mutex
	waiting map[types.UID]*news
	order   []types.UID
	sending map[types.UID]*sending
	workers int
	// told are closed when nothing is left to be sent.
	told []chan struct{}
	// known is what answers to patches told, or what the informer delivered since,
	// until the pod is bound or gone. An attempt under way may have an older version.
	known map[types.UID]view
}

// sending is a patch under way.
type sending struct {
	over chan struct{}
	// last says that the pod is being bound, or forgotten: whatever becomes of
	// the patch, no other follows.
	last bool
	// forget says that the answer need not be remembered.
	forget bool
	// delivered is the version of the pod that the informer delivered meanwhile.
	delivered *v1.Pod
}

func newStatusWriter(o Options) *statusWriter {
	return &statusWriter{
		options: o, waiting: map[types.UID]*news{},
		sending: map[types.UID]*sending{}, known: map[types.UID]view{},
	}
}

func (w *statusWriter) nominate(pod *v1.Pod, node string) { w.put(&news{pod: pod, nominated: &node}) }

// put queues news, merged with what is still to be sent about the same pod.
func (w *statusWriter) put(n *news) {
	w.mu.Lock()
	w.enqueue(n)
	start := w.wantsWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.work)
	}
}

func (w *statusWriter) enqueue(n *news) {
	uid := n.pod.UID
	if older, ok := w.waiting[uid]; ok {
		n.merge(older)
	} else {
		w.order = append(w.order, uid)
	}
	w.waiting[uid] = n
}

func (w *statusWriter) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, uid)
	delete(w.waiting, uid)
	if s := w.sending[uid]; s != nil {
		s.last, s.forget = true, true
	}
}

// observe replaces what an answer told by what the informer has delivered, which is
// kept anyway.
func (w *statusWriter) observe(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sending[pod.UID]; s != nil {
		s.delivered = pod
	}
	if told, ok := w.known[pod.UID]; ok {
		w.known[pod.UID] = told.replacedBy(pod)
	}
}

// begin registers a patch of a pod that nobody else writes to. Called with the lock.
func (w *statusWriter) begin(uid types.UID) *sending {
	s := &sending{over: make(chan struct{})}
	w.sending[uid] = s
	return s
}

// end remembers what the answer to a patch told, the zero view when it told nothing.
// Called with the lock.
func (w *statusWriter) end(pod *v1.Pod, s *sending, told view) {
	delete(w.sending, pod.UID)
	close(s.over)
	if told.version == "" || s.forget && !fault.ViewOutlivesPod {
		return
	}
	told = told.sharing(pod)
	if s.delivered != nil {
		told = told.replacedBy(s.delivered)
	}
	w.known[pod.UID] = told
}

// exclusively lets write patch a pod while no other patch of it is under way.
func (w *statusWriter) exclusively(pod *v1.Pod, write func() view) {
	w.mu.Lock()
	for w.sending[pod.UID] != nil {
		over := w.sending[pod.UID].over
		w.mu.Unlock()
		_ = w.options.Wait(context.Background(), over) // the patch ends by itself
		w.mu.Lock()
	}
	s := w.begin(pod.UID)
	w.mu.Unlock()

	told := write()

	w.mu.Lock()
	w.end(pod, s, told)
	start := len(w.waiting) > 0 && !fault.NewsBehindAMarkWaits && w.wantsWorker()
	w.mu.Unlock()
	if start {
		w.options.Go(w.work)
	}
}

// wantsWorker says whether one more worker is to be started, and counts it. Called with
// the lock.
func (w *statusWriter) wantsWorker() bool {
	if w.workers == statusWorkers {
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
func (w *statusWriter) settle(pod *v1.Pod) view {
	w.mu.Lock()
	delete(w.waiting, pod.UID)
	s := w.sending[pod.UID]
	if s != nil {
		s.last = !fault.PatchedDuringBind
	}
	w.mu.Unlock()
	if s != nil {
		// The patch ends by itself, whatever becomes of the bind.
		_ = w.options.Wait(context.Background(), s.over)
	}
	known := w.latest(pod)
	if !sameForScheduling(pod, known.like) && !fault.ChangedPodBound {
		return viewOf(pod)
	}
	return known
}

// latest is the newest that is known of a pod.
func (w *statusWriter) latest(pod *v1.Pod) view {
	w.mu.Lock()
	defer w.mu.Unlock()
	if told, ok := w.known[pod.UID]; ok && newer(pod.ResourceVersion, told.version) == told.version {
		return told
	}
	return viewOf(pod)
}

// work sends news until there is none. A worker whose write failed pauses, so
// that an API server in trouble is left in peace.
func (w *statusWriter) work() {
	for {
		w.mu.Lock()
		n := w.take()
		if n == nil {
			w.workers--
			w.tell()
			w.mu.Unlock()
			return
		}
		uid := n.pod.UID
		s := w.begin(uid)
		w.mu.Unlock()

		told, err := w.send(n)

		w.mu.Lock()
		w.end(n.pod, s, told)
		if n.tries++; err != nil && !s.last && n.tries < statusTries {
			if next, ok := w.waiting[uid]; ok {
				next.merge(n)
			} else {
				w.enqueue(n)
			}
		}
		w.mu.Unlock()
		if err != nil {
			<-w.options.Clock.After(settlePause)
		}
	}
}

// all is closed once nothing is left to be sent.
func (w *statusWriter) all() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := make(chan struct{})
	w.told = append(w.told, told)
	w.tell()
	return told
}

// tell tells who waits for it that nothing is left to be sent. Called with the
// lock.
func (w *statusWriter) tell() {
	if w.workers > 0 {
		return
	}
	for _, told := range w.told {
		close(told)
	}
	w.told = nil
}

// take returns the oldest news about a pod that nobody writes to, nil when
// there is none.
func (w *statusWriter) take() *news {
	for i := 0; i < len(w.order); i++ {
		uid := w.order[i]
		n, ok := w.waiting[uid]
		if ok && w.sending[uid] != nil {
			continue
		}
		w.order = slices.Delete(w.order, i, i+1)
		if ok {
			delete(w.waiting, uid)
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
func (w *statusWriter) send(n *news) (view, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	pods, there := w.options.Client.CoreV1().Pods(n.pod.Namespace), w.latest(n.pod)
	for range statusConflicts {
		patch, err := n.patch(there, metav1.NewTime(w.options.Clock.Now()))
		if patch == nil {
			return view{}, err
		}
		patched, err := pods.Patch(ctx, n.pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err == nil {
			return viewOf(w.options.transformed(patched)), nil
		}
		if !apierrors.IsConflict(err) {
			return view{}, w.failed(n, err)
		}
		live, err := pods.Get(ctx, n.pod.Name, metav1.GetOptions{})
		if err != nil {
			return view{}, w.failed(n, err)
		}
		if live.UID != n.pod.UID || live.Spec.NodeName != "" {
			return view{}, nil
		}
		there = viewOf(w.options.transformed(live))
	}
	return view{}, w.failed(n, errors.New("others change the pod all the time"))
}

// failed counts a write that failed, and returns err when another try may
// succeed.
func (w *statusWriter) failed(n *news, err error) error {
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
