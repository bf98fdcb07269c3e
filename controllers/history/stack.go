package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

// maxCrashStack is the longest text, in bytes, that a revision holds of a crash.
const maxCrashStack = 1024

// Crash is what is known of a process that crashed.
type Crash struct {
	// Process is its Options.Process.
	Process string
	// Time is when it crashed.
	Time time.Time
	// Reason is what it died of, such as "fatal error: stack overflow".
	Reason string
	// Plugins are those that were on the stack of the goroutine that crashed.
	Plugins []string
}

// NoteCrash marks the revisions on probation that are blamed for a crash: each one
// that the process ran, and that runs a plugin of the stack. runs says which plugins
// a stored profile runs under this version. It returns the names of the revisions.
// Where it returns an error it may be called again; what was marked stays so.
func (h *History) RecordCrash(ctx context.Context, c Crash, runs func(*v1alpha1.SchedulingProfile) []string) ([]string, error) {
	if len(c.Plugins) == 0 || fault.CrashStackUnread {
		return nil, nil
	}
	on := h.currentStore()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := on.list(ctx, allProfiles)
	if err != nil {
		return nil, fmt.Errorf("reading revisions: %w", err)
	}
	var blamed []string
	var errs []error
	for _, entry := range revisionsRunBy(list, c) {
		r, ours := h.revisionFrom(entry)
		if !ours {
			continue
		}
		own := runs(r.Profile)
		guilty := slices.DeleteFunc(slices.Clone(c.Plugins), func(plugin string) bool { return !slices.Contains(own, plugin) })
		if len(guilty) == 0 {
			continue
		}
		blamed = append(blamed, entry.Name)
		if entry.Annotations[v1alpha1.AnnotationCrashStack] != "" {
			continue
		}
		text := fmt.Sprintf("at %s a process died of %q, with plugin %s on its stack", c.Time.UTC().Format(time.RFC3339), c.Reason, strings.Join(guilty, ", "))
		entry.Annotations[v1alpha1.AnnotationCrashStack] = strings.ToValidUTF8(text[:min(len(text), maxCrashStack)], "")
		if _, err := on.update(ctx, entry); err != nil {
			errs = append(errs, fmt.Errorf("marking revision %s: %w", entry.Name, err))
		}
	}
	return blamed, errors.Join(errs...)
}

// ranBy are the revisions on probation that a process ran when it crashed: those
// that name it, and of each profile the one that was built last before. A follower
// is not named, and the next leader may have written its own name.
func revisionsRunBy(list []appsv1.ControllerRevision, c Crash) []*appsv1.ControllerRevision {
	last := map[string]*appsv1.ControllerRevision{}
	var ran []*appsv1.ControllerRevision
	for i := range list {
		entry := &list[i]
		since, err := time.Parse(time.RFC3339, entry.Annotations[v1alpha1.AnnotationProbation])
		switch {
		case onProbation(entry) && (err != nil || since.After(c.Time)):
			continue // it began later
		case onProbation(entry) && entry.Annotations[v1alpha1.AnnotationProcess] == c.Process:
			ran = append(ran, entry)
			continue
		case entry.Annotations[v1alpha1.AnnotationOnTrial] != "":
			continue
		}
		profile := entry.Labels[v1alpha1.LabelProfile]
		if last[profile] == nil || last[profile].Revision < entry.Revision {
			last[profile] = entry
		}
	}
	for _, entry := range last {
		if onProbation(entry) {
			ran = append(ran, entry)
		}
	}
	return ran
}
