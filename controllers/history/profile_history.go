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

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// ProfileHistory is the history of one profile as it was read, with the changes made
// since. It is not safe for concurrent use.
type ProfileHistory struct {
	// Revisions are in the order of their names.
	Revisions []Revision
	NotStored NotStored

	profile string
	store   store
	entries map[string]*appsv1.ControllerRevision
	// modified holds the names of entries that differ from what is stored.
	modified map[string]bool
	// reapplyRetry repeats ApplyRetry on entries that were read again; nil when it did
	// nothing.
	reapplyRetry func()
	// proved holds the hashes that were proved, by whichever profile.
	proved map[string]bool
}

// NotStored says why a history is not stored; the zero value, that it is.
type NotStored struct {
	Reason string
	// Final says that no later attempt can store it.
	Final bool
}

// setEntry replaces an entry, to be stored later.
func (l *ProfileHistory) setEntry(name string, entry *appsv1.ControllerRevision) {
	l.entries[name], l.modified[name] = entry, true
}

// updateRevisions sets Revisions from the entries.
func (l *ProfileHistory) updateRevisions(h *History) {
	l.Revisions = nil
	for _, name := range slices.Sorted(maps.Keys(l.entries)) {
		if r, ours := h.revisionFrom(l.entries[name]); ours {
			r.Probation = r.Probation && !l.proved[r.Hash]
			l.Revisions = append(l.Revisions, r)
		}
	}
}

// Proved reports whether a hash was proved: by this profile, or by another one as far
// as LoadProvedHashes has looked.
func (l *ProfileHistory) Proved(hash string) bool { return l.proved[hash] }

// Durable reports whether the history outlives the process.
func (l *ProfileHistory) Durable() bool { return l.NotStored == NotStored{} }

// StorableLater reports whether the history is not stored and a later attempt may store it.
func (l *ProfileHistory) StorableLater() bool {
	return !l.Durable() && !l.NotStored.Final
}

// Read returns the history of a profile. An error means that a later call may succeed.
// After maxFailedReads errors in a row, or when reading is forbidden, Read returns what
// this process has in memory.
func (h *History) Read(ctx context.Context, profile string) (*ProfileHistory, error) {
	if h.cluster == nil {
		return h.readMemory(ctx, profile, NotStored{Reason: "this process was started without a namespace to store it in", Final: true}), nil
	}
	list, err := h.cluster.list(ctx, ofProfile(profile))
	if err == nil {
		h.countRead(profile, true)
		return h.newProfileHistory(h.cluster, profile, list, NotStored{}), nil
	}
	if !apierrors.IsForbidden(err) && h.countRead(profile, false) < maxFailedReads {
		return nil, fmt.Errorf("reading the history of SchedulingProfile %s: %w", profile, err)
	}
	return h.readMemory(ctx, profile, NotStored{Reason: err.Error()}), nil
}

// countRead counts a read, and returns how many failed in a row.
func (h *History) countRead(profile string, ok bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok {
		delete(h.failedReads, profile)
		return 0
	}
	h.failedReads[profile]++
	return h.failedReads[profile]
}

func (h *History) readMemory(ctx context.Context, profile string, why NotStored) *ProfileHistory {
	list, _ := h.memory.list(ctx, ofProfile(profile))
	return h.newProfileHistory(h.memory, profile, list, why)
}

func (h *History) newProfileHistory(on store, profile string, list []appsv1.ControllerRevision, why NotStored) *ProfileHistory {
	l := &ProfileHistory{
		NotStored: why, profile: profile, store: on,
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

// LoadProvedHashes looks among the revisions of all profiles for the hashes that this
// profile has not proved: hash, which is empty when the spec was rejected, and those of
// its revisions on probation. A hash that any profile proved is proved.
func (h *History) LoadProvedHashes(ctx context.Context, l *ProfileHistory, hash string) error {
	unproved := map[string]bool{}
	if hash != "" && !l.proved[hash] {
		unproved[hash] = true
	}
	for _, r := range l.Revisions {
		if r.Probation {
			unproved[r.Hash] = true
		}
	}
	if len(unproved) == 0 {
		return nil
	}
	list, err := l.store.list(ctx, withHashes(slices.Sorted(maps.Keys(unproved))))
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

// StoredName returns name if a revision of that name is stored, and "" otherwise.
func (l *ProfileHistory) StoredName(name string) string {
	if l.Durable() && l.entries[name] != nil {
		return name
	}
	return ""
}

// Contains reports whether the entry of a revision exists with the same data and for the same
// profile: an entry of a deleted profile of the name is no revision of this one.
func (l *ProfileHistory) Contains(s RevisionSpec) bool {
	entry := l.entries[compile.RevisionName(s.Profile, s.Hash)]
	return entry != nil && entry.Annotations[v1alpha1.AnnotationProfileUID] == string(s.UID) &&
		bytes.Equal(canonicalJSON(entry.Data.Raw), canonicalJSON(s.Data))
}

// RevisionSpec describes a revision that is about to be built.
type RevisionSpec struct {
	Profile string
	UID     types.UID
	Hash    string
	// Generation is the profile's metadata.generation.
	Generation int64
	// Data is the whole profile as JSON, with arguments inline.
	Data []byte
	// Configs names the PluginConfigs whose arguments are in Data, by plugin.
	Configs map[string]string
	// TrialOnly says that it is built for a trial only and does not run after it.
	TrialOnly bool
	// Blamed says that it is built although it is blamed, since nothing can replace it.
	Blamed bool
	// Retry is the value of the profile's annotation berth.dev/retry.
	Retry string
}
