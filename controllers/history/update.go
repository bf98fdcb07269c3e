package history

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// Update stores what CountDeaths and ApplyRetry changed, and the progress of the
// revision that runs since the given time: it was swapped in; it served for a minute;
// it was proved, by running for Probation or by another profile. It also deletes
// revisions beyond MaxRevisions. It returns after what time to call it again; 0 when
// nothing is waited for.
func (h *History) Update(ctx context.Context, l *ProfileHistory, hash string, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wait, name := time.Duration(0), compile.RevisionName(l.profile, hash)
	if entry := l.entries[name]; entry != nil && onProbation(entry) {
		wait = h.updateProbation(l, entry, h.options.Clock.Now().Sub(since))
	}
	var errs []error
	for _, modified := range slices.Sorted(maps.Keys(l.modified)) {
		errs = append(errs, l.writeEntry(ctx, l.entries[modified]))
	}
	errs = append(errs, l.prune(ctx, name))
	return wait, errors.Join(errs...)
}

// updateProbation changes the entry of the revision that runs, which has run for the
// time ran, and returns the time until its next change.
func (h *History) updateProbation(l *ProfileHistory, before *appsv1.ControllerRevision, ran time.Duration) (wait time.Duration) {
	entry, changed := before.DeepCopy(), false
	served := h.options.Probation / ServedFraction
	switch {
	case ran >= h.options.Probation || l.proved[hashOf(entry)]:
		clearProbation(entry)
		l.setEntry(entry.Name, entry)
		return 0
	case ran < served:
		wait = served - ran
	default:
		wait = h.options.Probation - ran
		if entry.Annotations[v1alpha1.AnnotationServed] == "" {
			entry.Annotations[v1alpha1.AnnotationServed], changed = h.options.Clock.Now().UTC().Format(time.RFC3339), true
		}
	}
	if entry.Annotations[v1alpha1.AnnotationProcess] != h.options.Process {
		// It ran here before this process became the leader.
		entry.Annotations[v1alpha1.AnnotationProcess], changed = h.options.Process, true
	}
	if _, building := entry.Annotations[v1alpha1.AnnotationBuildBegun]; building {
		delete(entry.Annotations, v1alpha1.AnnotationBuildBegun)
		delete(entry.Annotations, v1alpha1.AnnotationBuildDeaths)
		changed = true
	}
	if changed {
		l.setEntry(entry.Name, entry)
	}
	return wait
}

func (l *ProfileHistory) writeEntry(ctx context.Context, entry *appsv1.ControllerRevision) error {
	stored, err := l.store.update(ctx, entry)
	if err == nil {
		l.entries[entry.Name] = stored
		delete(l.modified, entry.Name)
	}
	return err
}

// prune deletes the oldest entries beyond MaxRevisions, but neither the one that runs
// nor the newest proved one.
func (l *ProfileHistory) prune(ctx context.Context, runs string) error {
	entries := make([]*appsv1.ControllerRevision, 0, len(l.entries))
	for _, e := range l.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(numberOf(b), numberOf(a)), strings.Compare(a.Name, b.Name))
	})
	var errs []error
	excess, proved := len(entries)-MaxRevisions, ""
	for _, e := range entries {
		if proved == "" && !onProbation(e) {
			proved = e.Name
		}
	}
	for _, e := range slices.Backward(entries) {
		if excess <= 0 || e.Name == runs || e.Name == proved {
			continue
		}
		excess--
		if err := l.store.delete(ctx, e); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		delete(l.entries, e.Name)
	}
	return errors.Join(errs...)
}

// PruneDeleted dates the revisions of profiles that do not exist, and deletes those
// whose profile was deleted longer ago than DeletedProfileRetention. exists reports
// whether a profile exists.
func (h *History) PruneDeleted(ctx context.Context, exists func(profile string) bool) error {
	if err := h.pruneDeleted(ctx, h.memory, exists); err != nil || h.cluster == nil {
		return err
	}
	return h.pruneDeleted(ctx, h.cluster, exists)
}

func (h *History) pruneDeleted(ctx context.Context, on store, exists func(string) bool) error {
	list, err := on.list(ctx, allProfiles)
	errs := []error{err}
	now := h.options.Clock.Now()
	for i := range list {
		entry, err := &list[i], error(nil)
		deleted, dated := entry.Annotations[v1alpha1.AnnotationProfileGone]
		since, parseErr := time.Parse(time.RFC3339, deleted)
		switch ok := exists(entry.Labels[v1alpha1.LabelProfile]); {
		case ok && dated:
			delete(entry.Annotations, v1alpha1.AnnotationProfileGone)
			_, err = on.update(ctx, entry)
		case ok:
		case !dated || parseErr != nil:
			entry.Annotations = cloneOrEmpty(entry.Annotations)
			entry.Annotations[v1alpha1.AnnotationProfileGone] = now.UTC().Format(time.RFC3339)
			_, err = on.update(ctx, entry)
		case now.Sub(since) >= DeletedProfileRetention:
			err = on.delete(ctx, entry)
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // another process changed it: the next call sees the result
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close records that this process shuts down gracefully: the revisions that it has on
// probation did not crash it. A process that has lost the Lease may call it, since it
// removes this process's name alone, from the version that it read.
func (h *History) Close(ctx context.Context) error {
	if h.cluster == nil {
		return nil
	}
	list, err := h.unfenced.list(ctx, allProfiles)
	errs := []error{err}
	for i := range list {
		if entry := &list[i]; entry.Annotations[v1alpha1.AnnotationProcess] == h.options.Process {
			delete(entry.Annotations, v1alpha1.AnnotationProcess)
			delete(entry.Annotations, v1alpha1.AnnotationBuildBegun)
			_, err := h.unfenced.update(ctx, entry)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
