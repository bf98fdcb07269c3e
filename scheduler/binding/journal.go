package binding

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Journal holds the pods that have a Binding under way whose resource version
// carries a refusal. A new leader fences them; all others that carry a refusal it
// leaves alone.
type Journal interface {
	// Commit returns nil once the journal holds the pod for a new leader to see. It
	// may block; on an error the Binding must not be sent.
	Commit(ctx context.Context, uid types.UID) error
	// Release says that no Binding that this process has sent for the pod can take effect
	// any more, or that one has.
	Release(uid types.UID)
	// Forget says that the pod is gone or has a node: nor can one of an earlier leader.
	Forget(uid types.UID)
}

// CarriesRefusal says whether a version of a pod says PodScheduled=False. A Binding
// that names such a version is sent only while the journal holds the pod: a new
// leader need not fence the pod otherwise.
func HasPodScheduledFalse(pod *v1.Pod) bool { return podStatusOf(pod).hasPodScheduledFalse() }

func (v podStatus) hasPodScheduledFalse() bool {
	return v.condition != nil && v.condition.Status == v1.ConditionFalse
}

// journalEntry is a pod that is being bound, as the journal is concerned.
type journalEntry struct {
	journal Journal
	uid     types.UID
	// committed says that the journal holds the pod.
	committed bool
	// unknown says that a Binding may be on its way which names the version that the
	// pod has.
	outcomeUnknown bool
}

func (b *Binding) newJournalEntry(uid types.UID) *journalEntry {
	return &journalEntry{journal: b.options.Journal, uid: uid}
}

// commit puts the pod into the journal, if the version that a Binding is about to
// name carries a refusal.
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

// end takes the pod out of the journal, unless a Binding may still be on its way.
func (e *journalEntry) releaseIfKnown() {
	if e.committed && !e.outcomeUnknown {
		e.journal.Release(e.uid)
	}
}
