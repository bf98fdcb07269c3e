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
)

// maxCrashStack is the longest text about a crash that a revision holds, in bytes.
const maxCrashStack = 1024

// Crash is what is known of a process that crashed.
type Crash struct {
	// Process is the Options.Process of the process.
	Process string
	// Time is when it crashed.
	Time time.Time
	// Reason is the runtime's reason, such as "fatal error: stack overflow".
	Reason string
	// Plugins are the plugins on the stack of the goroutine that crashed.
	Plugins []string
}

// RecordCrash marks the revisions on probation that are to blame for a crash: each that
// the process ran and that runs a plugin on the stack. runs returns the plugins that a
// stored profile runs under this version. RecordCrash returns the names of the
// revisions. After an error it may be called again; the marks that it made stay. A follower
// may call it, since only it knows the crashes of its container.
func (h *History) RecordCrash(ctx context.Context, c Crash, runs func(*v1alpha1.SchedulingProfile) []string) ([]string, error) {
	if len(c.Plugins) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := h.unfenced.list(ctx, allProfiles)
	if err != nil {
		return nil, fmt.Errorf("reading revisions: %w", err)
	}
	var blamed []string
	var errs []error
	for _, entry := range revisionsRunBy(list, c) {
		r, ok := h.revisionFrom(entry)
		if !ok {
			continue
		}
		plugins := runs(r.Profile)
		culprits := slices.DeleteFunc(slices.Clone(c.Plugins), func(plugin string) bool { return !slices.Contains(plugins, plugin) })
		if len(culprits) == 0 {
			continue
		}
		blamed = append(blamed, entry.Name)
		if entry.Annotations[v1alpha1.AnnotationCrashStack] != "" {
			continue
		}
		message := fmt.Sprintf("at %s a process died of %q, with plugin %s on its stack", c.Time.UTC().Format(time.RFC3339), c.Reason, strings.Join(culprits, ", "))
		entry.Annotations[v1alpha1.AnnotationCrashStack] = strings.ToValidUTF8(message[:min(len(message), maxCrashStack)], "")
		if _, err := h.unfenced.update(ctx, entry); err != nil {
			errs = append(errs, fmt.Errorf("marking revision %s: %w", entry.Name, err))
		}
	}
	return blamed, errors.Join(errs...)
}

// revisionsRunBy returns the revisions on probation that a process ran when it crashed:
// those that name it, and the newest revision of each profile before the crash. Entries
// do not name a follower, and the next leader may have written its own name.
func revisionsRunBy(list []appsv1.ControllerRevision, c Crash) []*appsv1.ControllerRevision {
	last := map[string]*appsv1.ControllerRevision{}
	var revisions []*appsv1.ControllerRevision
	for i := range list {
		entry := &list[i]
		since, err := time.Parse(time.RFC3339, entry.Annotations[v1alpha1.AnnotationProbation])
		switch {
		case onProbation(entry) && (err != nil || since.After(c.Time)):
			continue // its probation began after the crash
		case onProbation(entry) && entry.Annotations[v1alpha1.AnnotationProcess] == c.Process:
			revisions = append(revisions, entry)
			continue
		case entry.Annotations[v1alpha1.AnnotationOnTrial] != "":
			continue
		}
		profile := entry.Labels[v1alpha1.LabelProfile]
		if last[profile] == nil || numberOf(last[profile]) < numberOf(entry) {
			last[profile] = entry
		}
	}
	for _, entry := range last {
		if onProbation(entry) {
			revisions = append(revisions, entry)
		}
	}
	return revisions
}
