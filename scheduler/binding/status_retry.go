package binding

import (
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berthdev/berth/scheduler/leadership"
)

// maxFlushTries is how often an update is sent before the end of the process does not wait
// for it any more: some seconds, while the API server fails.
const maxFlushTries = 4

// repeat has an update sent again that failed, after a pause that doubles with each try up to
// maxRetryDelay. It does not end: no other attempt of the pod need follow that would report its
// state. A newer update of the pod takes its place. It reports whether runLater is to be started.
// The caller holds the lock.
func (w *statusWriter) repeat(u *statusUpdate) (startLater bool) {
	uid := u.pod.UID
	if next, ok := w.pending[uid]; ok {
		next.merge(u)
		return false
	}
	u.waits, u.due = inLater, w.options.Clock.Now().Add(retryPause(u.tries))
	if u.due.Before(u.notBefore) {
		u.due = u.notBefore
	}
	w.pending[uid] = u
	if !slices.Contains(w.later, uid) { // it has the update that this one replaced
		w.later = append(w.later, uid)
		return len(w.later) == 1
	}
	return false
}

// retryPause returns the pause after a number of failed tries.
func retryPause(tries int) time.Duration {
	pause := retryDelay
	for ; tries > 1 && pause < maxRetryDelay; tries-- {
		pause *= 2
	}
	return min(pause, maxRetryDelay)
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

// runLater moves updates to repetitions when they are due, until none waits for that.
func (w *statusWriter) runLater() {
	for waiting := true; waiting; {
		<-w.options.Clock.After(retryDelay)
		w.mu.Lock()
		started := w.moveDue()
		waiting = len(w.later) > 0
		w.notifyFlushed()
		w.mu.Unlock()
		for range started {
			w.options.Go(w.runWorker)
		}
	}
}

// moveDue moves the updates that are due from later to repetitions, and returns how many workers
// are to be started. The caller holds the lock.
func (w *statusWriter) moveDue() (start int) {
	now := w.options.Clock.Now()
	w.later = slices.DeleteFunc(w.later, func(uid types.UID) bool {
		u := w.pending[uid]
		if u == nil || u.waits != inLater {
			return true
		}
		if now.Before(u.due) {
			return false
		}
		u.waits = inRepetitions
		w.repetitions = append(w.repetitions, uid)
		if start < maxRepeating && w.reserveWorker() {
			start++
		}
		return true
	})
	return start
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
