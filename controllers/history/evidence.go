package history

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berthdev/berth/api/v1alpha1"
)

const (
	// initialRebuildDelay is how long after its last build a blamed revision is built
	// again that nothing can replace. The delay doubles with each build, up to
	// maxRebuildDelay.
	initialRebuildDelay = 10 * time.Second
	maxRebuildDelay     = time.Hour
)

// evidenceOf reads the evidence against a revision from its entry.
func (h *History) evidenceOf(entry *appsv1.ControllerRevision) Evidence {
	e := Evidence{CrashStack: entry.Annotations[v1alpha1.AnnotationCrashStack], Deaths: len(deathTimes(entry))}
	e.BuildDeaths = count(entry.Annotations[v1alpha1.AnnotationBuildDeaths])
	if times, last := rebuilds(entry); times > 0 {
		if now := h.options.Clock.Now(); last.After(now) {
			last = now // the clock of the process that wrote it was ahead
		}
		e.NotBefore = last.Add(rebuildDelay(times))
	}
	return e
}

// count reads a number from an annotation, which users with the right to may change: from 0 to
// the largest int32. An invalid number counts as 0.
func count(text string) int {
	n, _ := strconv.ParseInt(text, 10, 32)
	return int(max(n, 0))
}

// rebuildDelay returns how long a blamed revision is not built after that many builds.
func rebuildDelay(times int) time.Duration {
	delay := initialRebuildDelay
	for range times - 1 {
		if delay *= 2; delay >= maxRebuildDelay {
			return maxRebuildDelay
		}
	}
	return delay
}

// rebuilds reads how often a blamed revision was built again, and when last.
func rebuilds(entry *appsv1.ControllerRevision) (times int, last time.Time) {
	number, at, _ := strings.Cut(entry.Annotations[v1alpha1.AnnotationRebuilds], " ")
	last, _ = time.Parse(time.RFC3339, at)
	return count(number), last
}

// deathTimes returns when leading processes ended while they ran a revision, the oldest
// first.
func deathTimes(entry *appsv1.ControllerRevision) []time.Time {
	var times []time.Time
	for text := range strings.SplitSeq(entry.Annotations[v1alpha1.AnnotationDeaths], ",") {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			times = append(times, at)
		}
	}
	return times
}

// CountDeaths counts the deaths of other leading processes. A process died when an
// entry still names it as running or building the revision: a graceful shutdown removes
// its name. Only the leader may call it, since the process in an entry that a follower
// reads may be alive. Begin and Update store the counts.
func (h *History) CountDeaths(l *ProfileHistory) {
	for name, entry := range l.entries {
		by := entry.Annotations[v1alpha1.AnnotationProcess]
		if !onProbation(entry) || by == "" || by == h.options.Process {
			continue
		}
		counted := entry.DeepCopy()
		h.countDeath(counted)
		l.setEntry(name, counted)
	}
	l.updateRevisions(h)
}

// countDeath counts the death of the process that the entry names.
func (h *History) countDeath(entry *appsv1.ControllerRevision) {
	now := h.options.Clock.Now().UTC()
	if _, building := entry.Annotations[v1alpha1.AnnotationBuildBegun]; building {
		n := count(entry.Annotations[v1alpha1.AnnotationBuildDeaths])
		entry.Annotations[v1alpha1.AnnotationBuildDeaths] = strconv.Itoa(n + 1)
	}
	var kept []string
	for _, at := range append(deathTimes(entry), now) {
		if now.Sub(at).Abs() <= h.options.Probation { // the clock of another process may be ahead
			kept = append(kept, at.Format(time.RFC3339))
		}
	}
	entry.Annotations[v1alpha1.AnnotationDeaths] = strings.Join(kept[max(0, len(kept)-maxLeaderDeaths):], ",")
	delete(entry.Annotations, v1alpha1.AnnotationProcess)
	delete(entry.Annotations, v1alpha1.AnnotationBuildBegun)
}

// ApplyRetry clears the evidence against the revision with a hash when the profile's
// annotation berth.dev/retry has a value that was not acted on yet. The probation of
// the revision begins again, so that a crash before the retry does not count, which
// another replica may record later. Begin and Update store the entry.
func (h *History) ApplyRetry(l *ProfileHistory, hash, retry string) {
	entry := l.entries[l.profile+"-"+hash]
	if entry == nil || retry == "" || !onProbation(entry) || entry.Annotations[v1alpha1.AnnotationRetried] == retry {
		return
	}
	cleared := entry.DeepCopy()
	clearEvidence(cleared)
	cleared.Annotations[v1alpha1.AnnotationProbation] = h.options.Clock.Now().UTC().Format(time.RFC3339)
	cleared.Annotations[v1alpha1.AnnotationRetried] = retry
	l.reapplyRetry = func() { h.ApplyRetry(l, hash, retry) }
	l.setEntry(entry.Name, cleared)
	l.updateRevisions(h)
}

// clearEvidence removes the evidence against a revision.
func clearEvidence(entry *appsv1.ControllerRevision) {
	for _, mark := range []string{
		v1alpha1.AnnotationCrashStack, v1alpha1.AnnotationBuildDeaths, v1alpha1.AnnotationDeaths, v1alpha1.AnnotationRebuilds,
	} {
		delete(entry.Annotations, mark)
	}
}

// clearProbation removes all annotations of a revision on probation.
func clearProbation(entry *appsv1.ControllerRevision) {
	clearEvidence(entry)
	for _, mark := range []string{
		v1alpha1.AnnotationProbation, v1alpha1.AnnotationServed, v1alpha1.AnnotationProcess, v1alpha1.AnnotationBuildBegun, v1alpha1.AnnotationRetried,
	} {
		delete(entry.Annotations, mark)
	}
}
