package history

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/fault"
)

const (
	// firstRebuild is how long after its last build a blamed revision is built again
	// that nothing can replace; it doubles with each build, up to lastRebuild.
	initialRebuildDelay = 10 * time.Second
	maxRebuildDelay     = time.Hour
)

// evidenceOf reads what an entry says against its revision.
func (h *History) evidenceOf(entry *appsv1.ControllerRevision) Evidence {
	e := Evidence{CrashStack: entry.Annotations[v1alpha1.AnnotationCrashStack], Deaths: len(deathTimes(entry))}
	// What is no number counts as none.
	e.BuildDeaths, _ = strconv.Atoi(entry.Annotations[v1alpha1.AnnotationBuildDeaths])
	if times, last := rebuilds(entry); times > 0 && !fault.RebuiltAtOnce {
		e.NotBefore = last.Add(rebuildDelay(times))
	}
	return e
}

// rebuildPause is how long a blamed revision is left alone after it was built the
// given number of times.
func rebuildDelay(times int) time.Duration {
	pause := initialRebuildDelay
	for range times - 1 {
		if pause *= 2; pause >= maxRebuildDelay {
			return maxRebuildDelay
		}
	}
	return pause
}

// rebuilds reads how often a blamed revision was built, and when last.
func rebuilds(entry *appsv1.ControllerRevision) (times int, last time.Time) {
	count, at, _ := strings.Cut(entry.Annotations[v1alpha1.AnnotationRebuilds], " ")
	times, _ = strconv.Atoi(count)
	last, _ = time.Parse(time.RFC3339, at)
	return times, last
}

// deaths are the times at which leading processes ended while they ran a revision,
// the oldest first.
func deathTimes(entry *appsv1.ControllerRevision) []time.Time {
	var times []time.Time
	for text := range strings.SplitSeq(entry.Annotations[v1alpha1.AnnotationDeaths], ",") {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			times = append(times, at)
		}
	}
	return times
}

// Account counts the ends of other leading processes: one that runs or builds a
// revision, and is not this one, ended without being asked to. It is for the leader
// alone: what a follower sees may be at work. Begin and Judge store the counts.
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

// count notes that the process which the entry names has ended.
func (h *History) countDeath(entry *appsv1.ControllerRevision) {
	now := h.options.Clock.Now().UTC()
	if _, building := entry.Annotations[v1alpha1.AnnotationBuildBegun]; building {
		n, _ := strconv.Atoi(entry.Annotations[v1alpha1.AnnotationBuildDeaths])
		entry.Annotations[v1alpha1.AnnotationBuildDeaths] = strconv.Itoa(n + 1)
	}
	var kept []string
	for _, at := range append(deathTimes(entry), now) {
		if now.Sub(at) <= h.options.Probation {
			kept = append(kept, at.Format(time.RFC3339))
		}
	}
	entry.Annotations[v1alpha1.AnnotationDeaths] = strings.Join(kept[max(0, len(kept)-maxLeaderDeaths):], ",")
	delete(entry.Annotations, v1alpha1.AnnotationProcess)
	delete(entry.Annotations, v1alpha1.AnnotationBuildBegun)
}

// Forgive clears what the revision with a hash is blamed for, where the profile's
// annotation berth.dev/retry has a value that was not acted upon. Its probation
// begins anew, so that a crash from before the retry, which a replica may note later,
// does not count. Begin and Judge store that.
func (h *History) ApplyRetry(l *ProfileHistory, hash, retry string) {
	entry := l.entries[l.profile+"-"+hash]
	if entry == nil || retry == "" || !onProbation(entry) || entry.Annotations[v1alpha1.AnnotationRetried] == retry || fault.RetryIgnored {
		return
	}
	forgiven := entry.DeepCopy()
	clearEvidence(forgiven)
	if !fault.OldCrashesOutliveRetry {
		forgiven.Annotations[v1alpha1.AnnotationProbation] = h.options.Clock.Now().UTC().Format(time.RFC3339)
	}
	forgiven.Annotations[v1alpha1.AnnotationRetried] = retry
	l.reapplyRetry = func() { h.ApplyRetry(l, hash, retry) }
	l.setEntry(entry.Name, forgiven)
	l.updateRevisions(h)
}

// clearEvidence removes what speaks against a revision.
func clearEvidence(entry *appsv1.ControllerRevision) {
	for _, mark := range []string{
		v1alpha1.AnnotationCrashStack, v1alpha1.AnnotationBuildDeaths, v1alpha1.AnnotationDeaths, v1alpha1.AnnotationRebuilds,
	} {
		delete(entry.Annotations, mark)
	}
}

// clearProbation removes all marks of a revision that is not proved.
func clearProbation(entry *appsv1.ControllerRevision) {
	clearEvidence(entry)
	for _, mark := range []string{
		v1alpha1.AnnotationProbation, v1alpha1.AnnotationServed, v1alpha1.AnnotationProcess, v1alpha1.AnnotationBuildBegun, v1alpha1.AnnotationRetried,
	} {
		delete(entry.Annotations, mark)
	}
}
