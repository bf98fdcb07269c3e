package history

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/scheduler/compile"
	"github.com/berthdev/berth/scheduler/fault"
)

// Log is the history of one profile at one time.
type ProfileHistory struct {
	// Revisions are in no order.
	Revisions []Revision
	// Trouble says why nothing is stored; empty when all is.
	NotStoredReason string
	// Namespace is where the history is kept.
	Namespace string

	profile string
	store   store
	entries map[string]*appsv1.ControllerRevision
	// amended are the names of entries that differ from what is stored.
	modified map[string]bool
	// forgiven repeats what Forgive did, over entries that were read anew; nil: nothing
	// was forgiven.
	reapplyRetry func()
	// proved are hashes that were proved under whatever name.
	proved map[string]bool
}

// amend replaces an entry; what is stored is to follow.
func (l *ProfileHistory) setEntry(name string, entry *appsv1.ControllerRevision) {
	l.entries[name], l.modified[name] = entry, true
}

// revise reads Revisions anew from the entries.
func (l *ProfileHistory) updateRevisions(h *History) {
	l.Revisions = nil
	for _, entry := range l.entries {
		if r, ours := h.revisionFrom(entry); ours {
			r.Probation = r.Probation && !l.proved[r.Hash]
			l.Revisions = append(l.Revisions, r)
		}
	}
}

// Proved says whether a hash was proved: by this profile, or by another one as far
// as Corroborate asked.
func (l *ProfileHistory) Proved(hash string) bool { return l.proved[hash] }

// Durable says whether the history outlives the process.
func (l *ProfileHistory) Durable() bool { return l.NotStoredReason == "" }

// Read returns the history of a profile. An error means that a later try may
// end better; after a few of them in a row, or where it is certain that
// nothing can be read, what this process remembers is returned instead.
func (h *History) Read(ctx context.Context, profile string) (*ProfileHistory, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if h.cluster == nil {
		return h.readMemory(ctx, profile, "this process was started without a namespace to keep it in"), nil
	}
	list, err := h.cluster.list(ctx, ofProfile(profile))
	if err == nil {
		h.countRead(profile, true)
		return h.newProfileHistory(h.cluster, profile, list, ""), nil
	}
	if !apierrors.IsForbidden(err) && h.countRead(profile, false) < maxFailedReads {
		return nil, fmt.Errorf("reading the history of SchedulingProfile %s: %w", profile, err)
	}
	return h.readMemory(ctx, profile, err.Error()), nil
}

// read notes how a read ended, and returns how many failed in a row.
func (h *History) countRead(profile string, well bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if well {
		delete(h.failedReads, profile)
		return 0
	}
	h.failedReads[profile]++
	return h.failedReads[profile]
}

func (h *History) readMemory(ctx context.Context, profile, trouble string) *ProfileHistory {
	list, _ := h.memory.list(ctx, ofProfile(profile))
	return h.newProfileHistory(h.memory, profile, list, trouble)
}

func (h *History) newProfileHistory(on store, profile string, list []appsv1.ControllerRevision, trouble string) *ProfileHistory {
	l := &ProfileHistory{
		NotStoredReason: trouble, Namespace: h.options.Namespace, profile: profile, store: on,
		entries: map[string]*appsv1.ControllerRevision{}, modified: map[string]bool{}, proved: map[string]bool{},
	}
	for i := range list {
		entry := &list[i]
		l.entries[entry.Name] = entry
		if !onProbation(entry) {
			l.proved[hashOf(entry)] = true
		}
	}
	l.updateRevisions(h)
	return l
}

// Corroborate looks among the revisions of all profiles for the hashes that this
// one has not proved: want, which is empty where the spec was rejected, and those of
// its revisions on probation. A hash that is proved under any name is proved.
func (h *History) LoadProvedHashes(ctx context.Context, l *ProfileHistory, want string) error {
	open := map[string]bool{}
	if want != "" && !l.proved[want] {
		open[want] = true
	}
	for _, r := range l.Revisions {
		if r.Probation {
			open[r.Hash] = true
		}
	}
	if len(open) == 0 || fault.ProvedByOneName {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := l.store.list(ctx, withHashes(slices.Sorted(maps.Keys(open))))
	if err != nil {
		return fmt.Errorf("reading revisions of other profiles: %w", err)
	}
	for i := range list {
		if !onProbation(&list[i]) {
			l.proved[hashOf(&list[i])] = true
		}
	}
	l.updateRevisions(h)
	return nil
}

// Stored returns name when a revision of that name outlives the process, else
// nothing.
func (l *ProfileHistory) StoredName(name string) string {
	if l.Durable() && l.entries[name] != nil {
		return name
	}
	return ""
}

// Holds says whether the revision of a step is there, word for word.
func (l *ProfileHistory) Contains(s RevisionSpec) bool {
	entry := l.entries[compile.RevisionName(s.Profile, s.Hash)]
	return entry != nil && bytes.Equal(canonicalJSON(entry.Data.Raw), canonicalJSON(s.Data))
}

// Step is one revision that is about to run.
type RevisionSpec struct {
	Profile string
	UID     types.UID
	Hash    string
	// Generation is the profile's that it is.
	Generation int64
	// Data is the whole profile.
	Data []byte
	// Configs names by plugin the PluginConfigs whose arguments are in Data.
	Configs map[string]string
	// OnTrial says that it is built for a trial only, and does not run after it.
	TrialOnly bool
	// Blamed says that it is built although it is blamed, since nothing replaces it.
	Blamed bool
	// Retry is the value of the profile's annotation berth.dev/retry.
	Retry string
}
