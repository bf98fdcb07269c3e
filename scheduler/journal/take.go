package journal

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berthdev/berth/scheduler/fault"
)

// refusals is how often the API server has to refuse the first write before it counts
// as refused for good: one that has just started may not know its rules yet.
const maxRefusals = 3

// Handover is what a new leader has to fence.
type Handover struct {
	Fence Fence
	// Pods are in the journal: they are fenced whatever their status says.
	Pods sets.Set[types.UID]
	// Err says why the journal could not be written; nil where it was.
	Err error
}

// Take writes the journal as that of a new leader, over what the leader before has
// written, and keeps the pods that are in it. From then on no write of an earlier
// leader succeeds. It retries while the API server fails, and reports false when ctx
// ends first.
//
// Where the API server refuses the write for good, every pod is to be fenced.
// Bindings are then sent without a commit if the next leader is sure to fence every
// pod as well: under a Lease, since it does not find this epoch in the journal;
// without one, only where there is no journal. It is not sure to while a write of this
// process may still arrive: pods that carry a refusal then wait until one succeeds.
func (j *Journal) TakeOver(ctx context.Context, l Leadership) (Handover, bool) {
	unanswered, refusedTimes := false, 0
	for {
		t, pause := j.tryTakeOver(ctx, l), retryPause
		switch {
		case t.err == nil:
			return j.recordTakeOver(t), true
		case ctx.Err() != nil:
			return Handover{}, false
		case apierrors.IsConflict(t.err), apierrors.IsAlreadyExists(t.err):
			pause = writeInterval // the leader before has written it meanwhile
		case isPermanent(t.err):
			refusedTimes++
		case t.sent && !utilnet.IsConnectionRefused(t.err) && !apierrors.IsTooManyRequests(t.err):
			unanswered = true // it may still arrive
		}
		if pause == retryPause {
			j.options.Log.Error(t.err, "Taking over the journal of Bindings", "configMap", Name)
		}
		if refusedTimes >= maxRefusals && !(unanswered && fault.UnansweredTakeWaits) {
			return j.proceedWithout(l, t, unanswered && !fault.UnansweredTakeForgotten), true
		}
		select {
		case <-ctx.Done():
			return Handover{}, false
		case <-j.options.Clock.After(pause):
		}
	}
}

// try is one try of Take.
type takeOverTry struct {
	// missing says that there is no journal, and sent that its write was sent.
	missing, sent bool
	version       string
	content       content
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
		return takeOverTry{version: version, content: *before} // written by an earlier try
	}
	t = takeOverTry{missing: version == "", sent: true, content: initialContent(j.options.Holder, l, before, err)}
	t.version, t.err = j.putContent(ctx, version, t.content)
	return t
}

// begin notes what this process has written.
func (j *Journal) recordTakeOver(t takeOverTry) Handover {
	available.Set(1)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.own = t.content
	j.own.pods = sets.New[types.UID]()
	j.resourceVersion, j.versionKnown, j.takenOver, j.commitsOptional = t.version, true, true, false
	j.stored, j.inherited = t.content.pods, t.content.pods.Clone()
	h := Handover{Fence: t.content.fence, Pods: t.content.pods.Clone()}
	if fault.JournalIgnored {
		h.Pods = nil
	}
	return h
}

// doWithout notes that this process cannot write the journal, and whether a write that
// it has sent may still arrive.
func (j *Journal) proceedWithout(l Leadership, t takeOverTry, unanswered bool) Handover {
	available.Set(0)
	j.failed.Store(true)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.commitsOptional = (l.Elected || t.missing) && !unanswered
	j.own.epoch, j.own.elected, j.own.fence = l.Epoch, l.Elected, fenceDone
	return Handover{Fence: FenceAll, Err: t.err}
}

// Fenced notes that all pods are fenced that had to be, but for some: those stay in
// the journal until they are released.
func (j *Journal) Fenced(but []types.UID) {
	j.mu.Lock()
	defer j.mu.Unlock()
	// Else the next leader would fence every pod again, though this one has.
	j.dirty = j.own.fence == FenceAll && j.takenOver
	j.own.fence, j.inherited = fenceDone, sets.New(but...)
	if j.dirty && !j.writing {
		j.writing = true
		j.options.Go(j.write)
	}
}
