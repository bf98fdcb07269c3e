package binding

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/leadership"
)

const (
	// maxStatusTries is how often an update is sent, a second apart, while the API server
	// fails. After that it is sent once per laterInterval: no other attempt of the pod need
	// follow that would report its state.
	maxStatusTries = 10
	laterInterval  = 30 * time.Second
)

// repeat queues an update that failed: behind the others, or for later after many tries. A newer
// update of the pod takes its place. It reports whether runLater is to be started. The caller
// holds the lock.
func (w *statusWriter) repeat(u *statusUpdate) (startLater bool) {
	uid := u.pod.UID
	if next, ok := w.pending[uid]; ok {
		next.merge(u)
		return false
	}
	if u.tries < maxStatusTries {
		w.enqueue(u)
		return false
	}
	u.later = true
	w.pending[uid] = u
	w.later = append(w.later, uid)
	return len(w.later) == 1
}

// notBefore returns until when the API server asks in err to be sent nothing; zero where it does
// not ask.
func (w *statusWriter) notBefore(err error) time.Time {
	seconds, asked := apierrors.SuggestsClientDelay(err)
	if !asked {
		return time.Time{}
	}
	return w.options.Clock.Now().Add(time.Duration(seconds) * time.Second)
}

// runLater queues the updates that wait for laterInterval when it is over.
func (w *statusWriter) runLater() {
	<-w.options.Clock.After(laterInterval)
	w.mu.Lock()
	var workers int
	for _, uid := range w.later {
		u := w.pending[uid]
		if u == nil || !u.later {
			continue
		}
		u.later = false
		w.queue = append(w.queue, uid)
		if w.reserveWorker() {
			workers++
		}
	}
	w.later = nil
	w.mu.Unlock()
	for range workers {
		w.options.Go(w.runWorker)
	}
}

// recordFailure counts a failed write, and returns err when another try may succeed. One that
// is not permitted may: a token is renewed, and permissions are given back. So may one that was
// not sent because the Lease seemed to be too old: after a jump of the clock it is renewed soon.
func (w *statusWriter) recordFailure(u *statusUpdate, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	statusFailures.Inc()
	w.options.Log.Error(err, "Cannot write a pod's status", "pod", klog.KObj(u.pod), "tries", u.tries+1)
	if !ambiguous(err) && !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) && !errors.Is(err, leadership.ErrNotLeading) {
		return nil
	}
	return err
}
