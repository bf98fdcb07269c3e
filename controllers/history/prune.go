package history

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/compile"
)

// Judge stores what Account and Forgive found, and what the revision that runs has
// become: it was swapped in; it served for a minute; it is proved, since it ran for
// Probation, or since its hash is proved under another name. It returns how long it
// is until the next of these; 0 when nothing is to be waited for. And it drops the
// revisions that are too many.
func (h *History) Update(ctx context.Context, l *ProfileHistory, hash string, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	wait, name := time.Duration(0), compile.RevisionName(l.profile, hash)
	if entry := l.entries[name]; entry != nil && onProbation(entry) {
		wait = h.updateProbation(l, entry, h.options.Clock.Now().Sub(since))
	}
	var errs []error
	for amended := range l.modified {
		errs = append(errs, l.writeEntry(ctx, l.entries[amended]))
	}
	errs = append(errs, l.prune(ctx, name))
	return wait, errors.Join(errs...)
}

// progress amends the entry of what runs, which has run for ran.
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
		// It ran here before this process led.
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

// prune drops the oldest of too many, but neither what runs nor the newest
// that proved itself.
func (l *ProfileHistory) prune(ctx context.Context, runs string) error {
	entries := make([]*appsv1.ControllerRevision, 0, len(l.entries))
	for _, e := range l.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	var errs []error
	over, proved := len(entries)-MaxRevisions, ""
	for _, e := range entries {
		if proved == "" && !onProbation(e) {
			proved = e.Name
		}
	}
	for _, e := range slices.Backward(entries) {
		if over <= 0 || e.Name == runs || e.Name == proved {
			continue
		}
		over--
		if err := l.store.delete(ctx, e); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		delete(l.entries, e.Name)
	}
	return errors.Join(errs...)
}

// Sweep dates the revisions of profiles that are gone, and deletes those that
// are gone for longer than Grace. exists says which profiles there are.
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
		gone, dated := entry.Annotations[v1alpha1.AnnotationProfileGone]
		since, parseErr := time.Parse(time.RFC3339, gone)
		switch there := exists(entry.Labels[v1alpha1.LabelProfile]); {
		case there && dated:
			delete(entry.Annotations, v1alpha1.AnnotationProfileGone)
			_, err = on.update(ctx, entry)
		case there:
		case !dated || parseErr != nil:
			entry.Annotations = cloneOrEmpty(entry.Annotations)
			entry.Annotations[v1alpha1.AnnotationProfileGone] = now.UTC().Format(time.RFC3339)
			_, err = on.update(ctx, entry)
		case now.Sub(since) >= DeletedProfileRetention:
			err = on.delete(ctx, entry)
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // the next sweep sees what others did
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close says that this process was asked to end: what it leaves on probation did not
// take it down.
func (h *History) Close(ctx context.Context) error {
	if h.cluster == nil {
		return nil
	}
	list, err := h.cluster.list(ctx, allProfiles)
	errs := []error{err}
	for i := range list {
		if entry := &list[i]; entry.Annotations[v1alpha1.AnnotationProcess] == h.options.Process {
			delete(entry.Annotations, v1alpha1.AnnotationProcess)
			delete(entry.Annotations, v1alpha1.AnnotationBuildBegun)
			_, err := h.cluster.update(ctx, entry)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
