package journal

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/leadership"
)

// maxRefusals is how often the API server has to reject the first write until the
// rejection counts as final: an API server that has just started may not have loaded
// its RBAC rules yet.
const maxRefusals = 3

// Handover is what a new leader has to fence.
type Handover struct {
	Fence Fence
	// Pods are in the journal. They are fenced whatever their status says.
	Pods sets.Set[types.UID]
	// Version is the version of the journal that this process wrote; empty where it did not.
	Version string
	// ClosedAt is the version at which the leader before closed the journal: its last Binding
	// was sent before. Empty where it did not, or where every pod has to be fenced.
	ClosedAt string
	// Err says why the journal could not be written; nil where it was.
	Err error
}

// TakeOver writes the journal as that of a new leader, over what the leader before
// has written, and keeps the pods that are in it. From then on no write of an earlier
// leader succeeds. It retries while the API server fails and while the Lease seems too
// old, and returns false when ctx ends first.
//
// Where the API server rejects the write for good, every pod has to be fenced.
// Bindings are then sent without a commit if the next leader is sure to fence every
// pod as well. With an election it is sure to, since it does not find this epoch in
// the journal; without one, only where there is no journal. It is not sure to while a
// write of this process may still arrive: pods that carry PodScheduled=False are then
// not bound until a write succeeds.
func (j *Journal) TakeOver(ctx context.Context, l Leadership) (Handover, bool) {
	unanswered, rejections := false, 0
	for {
		t, pause := j.tryTakeOver(ctx, l), retryPause
		switch {
		case t.err == nil:
			return j.recordTakeOver(t), true
		case ctx.Err() != nil:
			return Handover{}, false
		case apierrors.IsConflict(t.err), apierrors.IsAlreadyExists(t.err):
			pause = writeInterval // the leader before wrote it meanwhile
		case errors.Is(t.err, leadership.ErrNotLeading):
			// The write was not sent, and the API server has rejected nothing. The next
			// renewal makes writes possible again, or ctx ends.
		case isPermanent(t.err):
			rejections++
		case t.sent && !utilnet.IsConnectionRefused(t.err) && !apierrors.IsTooManyRequests(t.err):
			unanswered = true // the write may still arrive
		}
		if pause == retryPause {
			j.options.Log.Error(t.err, "Failed to take over the journal of Bindings", "configMap", Name)
		}
		if rejections >= maxRefusals {
			return j.proceedWithout(l, t, unanswered), true
		}
		select {
		case <-ctx.Done():
			return Handover{}, false
		case <-j.options.Clock.After(pause):
		}
	}
}

// Exists reports whether there is a journal, readable or not.
func (j *Journal) Exists(ctx context.Context) (bool, error) {
	version, _, err := j.read(ctx)
	if errors.As(err, new(*malformedError)) {
		err = nil
	}
	return version != "", err
}

// takeOverTry is the result of one try of TakeOver.
type takeOverTry struct {
	// missing says that there is no journal, sent that the write was sent.
	missing, sent bool
	version       string
	content       content
	closedAt      string
	err           error
}

func (j *Journal) tryTakeOver(ctx context.Context, l Leadership) (t takeOverTry) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	version, before, err := j.read(ctx)
	if err != nil && !errors.As(err, new(*malformedError)) {
		return takeOverTry{err: err}
	}
	if before != nil && before.holder == j.options.Holder {
		return takeOverTry{version: version, content: *before} // an earlier try wrote it
	}
	t = takeOverTry{missing: version == "", sent: true, content: initialContent(j.options.Holder, l, before, err)}
	if before != nil && before.closed && t.content.fence == FenceFresh {
		t.closedAt = version
	}
	t.version, t.err = j.putContent(ctx, version, t.content)
	return t
}

// recordTakeOver records what this process has written.
func (j *Journal) recordTakeOver(t takeOverTry) Handover {
	available.Set(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own = t.content
	j.own.pods = sets.New[types.UID]()
	j.resourceVersion, j.versionKnown, j.takenOver, j.commitsOptional = t.version, true, true, false
	j.stored, j.inherited = t.content.pods, t.content.pods.Clone()
	return Handover{Fence: t.content.fence, Pods: t.content.pods.Clone(), Version: t.version, ClosedAt: t.closedAt}
}

// proceedWithout records that this process cannot write the journal. unanswered says
// that a write which it sent may still arrive.
func (j *Journal) proceedWithout(l Leadership, t takeOverTry, unanswered bool) Handover {
	available.Set(0)
	j.failed.Store(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commitsOptional = (l.Elected || t.missing) && !unanswered
	j.own.epoch, j.own.elected, j.own.lease, j.own.fence = l.Epoch, l.Elected, l.Lease, fenceDone
	return Handover{Fence: FenceAll, Err: t.err}
}

// closeTimeout is how long Close waits for the write.
const closeTimeout = 2 * time.Second

// Close records that this process has sent its last Binding, so that the next leader need not
// fence pods that are newer. It returns when that is written, or after closeTimeout: without
// it the next leader fences more. Commit must not be called any more.
func (j *Journal) Close(ctx context.Context) {
	j.mu.Lock()
	if !j.takenOver || j.own.fence != fenceDone {
		j.mu.Unlock()
		return
	}
	written := make(chan struct{})
	j.own.closed, j.closing, j.dirty = true, written, true
	if !j.writing {
		j.writing = true
		j.options.Go(j.write)
	}
	j.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer j.options.Clock.AfterFunc(closeTimeout, cancel).Stop()
	if j.options.Wait(ctx, written) != nil {
		j.options.Log.Info("The journal of Bindings is not closed: the next leader fences pods that it need not", "configMap", Name)
	}
}

// Fenced records that the new leader has fenced all pods that it had to, except
// those in failed, which stay in the journal until Forget.
func (j *Journal) Fenced(failed []types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// Otherwise the next leader would fence every pod again.
	j.dirty = j.own.fence == FenceAll && j.takenOver
	j.own.fence, j.inherited = fenceDone, sets.New(failed...)
	if j.dirty && !j.writing {
		j.writing = true
		j.options.Go(j.write)
	}
}
