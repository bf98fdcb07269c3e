package binding

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Journal holds the pods that are being bound at a resource version with
// PodScheduled=False. A new leader fences those, and no other pod with that
// condition.
type Journal interface {
	// Commit returns nil once a new leader would read the pod from the journal. It
	// may block. On an error the Binding must not be sent.
	Commit(ctx context.Context, uid types.UID) error
	// Release says that no Binding that this process sent for the pod can take
	// effect any more, or that one has.
	Release(uid types.UID)
	// Forget says that the pod is gone or has a node, so that no Binding of an
	// earlier leader can take effect either.
	Forget(uid types.UID)
}

// HasPodScheduledFalse reports whether a version of a pod has the condition
// PodScheduled=False. A Binding at such a version is sent only while the journal
// holds the pod, so that a new leader need not fence the other ones.
func HasPodScheduledFalse(pod *v1.Pod) bool { return podStatusOf(pod).hasPodScheduledFalse() }

func (v podStatus) hasPodScheduledFalse() bool {
	return v.condition != nil && v.condition.Status == v1.ConditionFalse
}

// journalEntry is the state in the journal of a pod that is being bound.
type journalEntry struct {
	journal Journal
	uid     types.UID
	// committed says that the journal holds the pod.
	committed bool
	// outcomeUnknown says that a Binding at the pod's current version may still
	// arrive.
	outcomeUnknown bool
}

func (b *Binding) newJournalEntry(uid types.UID) *journalEntry {
	return &journalEntry{journal: b.options.Journal, uid: uid}
}

// commit writes the pod into the journal when the version of the Binding has
// PodScheduled=False.
func (e *journalEntry) commit(ctx context.Context, named podStatus) error {
	if e.journal == nil || e.committed || !named.hasPodScheduledFalse() {
		return nil
	}
	if err := e.journal.Commit(ctx, e.uid); err != nil {
		return err
	}
	e.committed = true
	return nil
}

// releaseIfKnown removes the pod from the journal, unless a Binding may still arrive.
func (e *journalEntry) releaseIfKnown() {
	if e.committed && !e.outcomeUnknown {
		e.journal.Release(e.uid)
	}
}
