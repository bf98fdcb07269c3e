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

// Judge writes down what became of a profile's revisions: that the process
// before this one died on one of them; that the one with the hash that runs
// has run since long enough to be trusted. It returns how long it is until
// then; 0 when nothing is to be waited for. And it drops those that are too
// many.
func (h *History) Judge(ctx context.Context, l *Log, profile, hash string, since time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var errs []error
	for i := range l.Revisions {
		if r := &l.Revisions[i]; r.Interrupted && r.Crashed() {
			entry := l.entries[r.Name].DeepCopy()
			count(entry)
			errs = append(errs, l.replace(ctx, entry))
		}
	}
	wait := time.Duration(0)
	if entry := l.entries[compile.RevisionName(profile, hash)]; entry != nil && onProbation(entry) {
		if wait = since.Add(h.options.Probation).Sub(h.options.Clock.Now()); wait <= 0 {
			wait = 0
			errs = append(errs, l.trust(ctx, entry.DeepCopy()))
		}
	}
	errs = append(errs, l.prune(ctx, compile.RevisionName(profile, hash)))
	return wait, errors.Join(errs...)
}

func (l *Log) trust(ctx context.Context, entry *appsv1.ControllerRevision) error {
	for _, mark := range []string{v1alpha1.AnnotationProbation, v1alpha1.AnnotationProcess, v1alpha1.AnnotationCrashes} {
		delete(entry.Annotations, mark)
	}
	return l.replace(ctx, entry)
}

func (l *Log) replace(ctx context.Context, entry *appsv1.ControllerRevision) error {
	stored, err := l.shelf.update(ctx, entry)
	if err == nil {
		l.entries[entry.Name] = stored
	}
	return err
}

// prune drops the oldest of too many, but neither what runs nor the newest
// that proved itself.
func (l *Log) prune(ctx context.Context, runs string) error {
	entries := make([]*appsv1.ControllerRevision, 0, len(l.entries))
	for _, e := range l.entries {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })
	var errs []error
	over, proved := len(entries)-Kept, ""
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
		if err := l.shelf.delete(ctx, e); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, err)
			continue
		}
		delete(l.entries, e.Name)
	}
	return errors.Join(errs...)
}

// Sweep dates the revisions of profiles that are gone, and deletes those that
// are gone for longer than Grace. exists says which profiles there are.
func (h *History) Sweep(ctx context.Context, exists func(profile string) bool) error {
	if err := h.sweep(ctx, h.memory, exists); err != nil || h.cluster == nil {
		return err
	}
	return h.sweep(ctx, h.cluster, exists)
}

func (h *History) sweep(ctx context.Context, on shelf, exists func(string) bool) error {
	list, err := on.list(ctx, "")
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
			entry.Annotations = orEmpty(entry.Annotations)
			entry.Annotations[v1alpha1.AnnotationProfileGone] = now.UTC().Format(time.RFC3339)
			_, err = on.update(ctx, entry)
		case now.Sub(since) >= Grace:
			err = on.delete(ctx, entry)
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) { // the next sweep sees what others did
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Close says that this process ends well: what it leaves on probation did not
// take it down.
func (h *History) Close(ctx context.Context) error {
	if h.cluster == nil {
		return nil
	}
	list, err := h.cluster.list(ctx, "")
	errs := []error{err}
	for i := range list {
		if entry := &list[i]; entry.Annotations[v1alpha1.AnnotationProcess] == h.options.Process {
			delete(entry.Annotations, v1alpha1.AnnotationProcess)
			_, err := h.cluster.update(ctx, entry)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
