package checker

import (
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/test/support/history"
)

const (
	// mostBytes bounds the objects that Berth writes, mostAnnotation the annotation of a bind.
	mostBytes, mostAnnotation = 64 << 10, 1 << 10
	// writeWindow is the window in which the writes of a status are counted: one a second, and
	// writesPerChange for each change of the spec or of the leader.
	writeWindow     = 10 * time.Second
	writesPerChange = 8
)

// checkProfiles checks the versions of each profile.
func (r *results) checkProfiles(t *timeline) {
	for _, k := range t.keysOf("SchedulingProfile") {
		var before *history.Change
		for _, v := range t.versions[k] {
			if before != nil && !v.Deleted && !before.Deleted && v.Object.GetUID() == before.Object.GetUID() {
				r.checkNotBack(before, v)
				r.checkKeepsRunning(before, v)
			}
			r.checkSize(v)
			before = v
		}
		r.checkWriteRate(t, k)
	}
	for _, k := range t.keysOf("SchedulingDecision") {
		for _, v := range t.versions[k] {
			r.checkSize(v)
		}
	}
	for _, k := range t.keysOf("ControllerRevision") {
		r.checkRevisions(t.versions[k])
	}
	r.checkLeases(t)
}

// checkNotBack checks that nothing in the status goes back from one version to the next.
func (r *results) checkNotBack(before, now *history.Change) {
	r.checked(I18)
	a, b := before.Object.(*v1alpha1.SchedulingProfile).Status, now.Object.(*v1alpha1.SchedulingProfile).Status
	name := keyOf(now.Object).String()
	back := func(what string, from, to int64) {
		if to < from {
			r.fail(I18, now.Revision, name, "%s goes back from %d to %d", what, from, to)
		}
	}
	back("status.observedGeneration", a.ObservedGeneration, b.ObservedGeneration)
	for _, c := range a.Conditions {
		if later := meta.FindStatusCondition(b.Conditions, c.Type); later != nil {
			back("observedGeneration of condition "+c.Type, c.ObservedGeneration, later.ObservedGeneration)
		}
	}
	if a.LastDecisionTime != nil && b.LastDecisionTime != nil {
		back("status.lastDecisionTime", a.LastDecisionTime.Unix(), b.LastDecisionTime.Unix())
	}
	if a.Totals == nil || b.Totals == nil || a.Totals.Since == nil || b.Totals.Since == nil {
		return
	}
	back("status.totals.since", a.Totals.Since.Unix(), b.Totals.Since.Unix())
	if a.Totals.Since.Equal(b.Totals.Since) {
		back("status.totals.bound", a.Totals.Bound, b.Totals.Bound)
		back("status.totals.refusals", a.Totals.Refusals, b.Totals.Refusals)
		back("status.totals.errors", a.Totals.Errors, b.Totals.Errors)
		back("status.totals.victims", a.Totals.Victims, b.Totals.Victims)
	}
}

// checkKeepsRunning checks that a profile that runs keeps running, and that what runs does not
// change where the newest spec does not run.
func (r *results) checkKeepsRunning(before, now *history.Change) {
	a, b := before.Object.(*v1alpha1.SchedulingProfile).Status, now.Object.(*v1alpha1.SchedulingProfile).Status
	if a.Programmed == nil {
		return
	}
	r.checked(I6)
	name := keyOf(now.Object).String()
	if b.Programmed == nil {
		r.fail(I6, now.Revision, name, "hash %s ran, and nothing runs any more", a.Programmed.Hash)
		return
	}
	c := meta.FindStatusCondition(b.Conditions, string(v1alpha1.ConditionProgrammed))
	switch {
	case c == nil || c.Reason == string(v1alpha1.ReasonCrashedOnProbation):
	case c.Status != metav1.ConditionTrue && b.Programmed.Hash != a.Programmed.Hash:
		r.fail(I6, now.Revision, name, "hash %s runs instead of %s, although the newest spec does not run: %s: %s", b.Programmed.Hash, a.Programmed.Hash, c.Reason, c.Message)
	case c.Status == metav1.ConditionTrue && b.Programmed.Generation != c.ObservedGeneration:
		r.fail(I6, now.Revision, name, "it is Programmed for generation %d, and generation %d runs", c.ObservedGeneration, b.Programmed.Generation)
	}
}

// checkSize bounds an object that Berth writes.
func (r *results) checkSize(v *history.Change) {
	r.checked(I17)
	if v.Size > mostBytes {
		r.fail(I17, v.Revision, keyOf(v.Object).String(), "it has %d bytes, more than %d", v.Size, mostBytes)
	}
}

// checkWriteRate bounds the writes of the status of a profile in any writeWindow.
func (r *results) checkWriteRate(t *timeline, k key) {
	var writes, changes []time.Time
	var before *history.Change
	for _, v := range t.versions[k] {
		switch {
		case v.Listed:
		case before == nil || v.Object.GetGeneration() != before.Object.GetGeneration() || v.Deleted ||
			!equality.Semantic.DeepEqual(v.Object.GetAnnotations(), before.Object.GetAnnotations()):
			changes = append(changes, v.Seen)
		default:
			writes = append(writes, v.Seen)
		}
		before = v
	}
	changes = append(changes, t.leaderChanges()...)
	for i, at := range writes {
		n := 1
		for i+n < len(writes) && writes[i+n].Sub(at) < writeWindow {
			n++
		}
		allowed := int(writeWindow/time.Second) + 1
		for _, change := range changes {
			if d := change.Sub(at); d > -writeWindow && d < writeWindow {
				allowed += writesPerChange
			}
		}
		if n > allowed {
			r.fail(I17, 0, k.String(), "its status was written %d times within %s, from %s", n, writeWindow, at.Format(time.TimeOnly))
			return
		}
	}
}

// leaderChanges returns when the holder of the Lease changed.
func (t *timeline) leaderChanges() (at []time.Time) {
	last := ""
	for _, v := range t.versions[key{"Lease", t.Options.Namespace, t.Options.Lease}] {
		if now := holder(v.Object.(*coordinationv1.Lease)); now != last {
			at, last = append(at, v.Seen), now
		}
	}
	return at
}

// checkRevisions checks that the number of a profile's revision does not go back.
func (r *results) checkRevisions(versions []*history.Change) {
	var before *history.Change
	for _, v := range versions {
		if before != nil && !before.Deleted && v.Object.GetUID() == before.Object.GetUID() {
			r.checked(I18)
			if from, to := before.Object.(*appsv1.ControllerRevision).Revision, v.Object.(*appsv1.ControllerRevision).Revision; to < from {
				r.fail(I18, v.Revision, keyOf(v.Object).String(), "its number goes back from %d to %d", from, to)
			}
		}
		before = v
	}
}

// checkLeases checks that the number of transitions in the Lease does not go back.
func (r *results) checkLeases(t *timeline) {
	last, uid := int32(0), types.UID("")
	for _, v := range t.versions[key{"Lease", t.Options.Namespace, t.Options.Lease}] {
		lease := v.Object.(*coordinationv1.Lease)
		n := int32(0)
		if lease.Spec.LeaseTransitions != nil {
			n = *lease.Spec.LeaseTransitions
		}
		if lease.UID == uid {
			r.checked(I18)
			if n < last {
				r.fail(I18, v.Revision, keyOf(lease).String(), "its transitions go back from %d to %d", last, n)
			}
		}
		last, uid = n, lease.UID
		if v.Deleted {
			uid = ""
		}
	}
}

// journal is what a version of the journal of Bindings says.
type journal struct {
	epoch int64
	fence string
}

// journalKey is the key of the journal.
func (t *timeline) journalKey() key { return key{"ConfigMap", t.Options.Namespace, "berth-bindings"} }

// journalAt returns the journal at a revision; nil where there is none, or it is not valid.
func (t *timeline) journalAt(revision int64) *journal {
	version := t.at(t.journalKey(), revision)
	if version == nil {
		return nil
	}
	j, err := readJournal(version)
	if err != nil {
		return nil
	}
	return &j
}

func readJournal(version *history.Change) (j journal, err error) {
	data := version.Object.(*corev1.ConfigMap).Data
	j.fence = data["fence"]
	j.epoch, err = strconv.ParseInt(data["epoch"], 10, 64)
	return j, err
}

// checkJournal checks that the epoch in the journal does not go back while the Lease exists.
func (r *results) checkJournal(t *timeline) {
	var resets []int64
	for _, v := range t.versions[key{"Lease", t.Options.Namespace, t.Options.Lease}] {
		if v.Deleted {
			resets = append(resets, v.Revision)
		}
	}
	last, lastRevision := int64(0), int64(0)
	for _, v := range t.versions[t.journalKey()] {
		if v.Deleted {
			last = 0
			continue
		}
		r.checked(I18)
		j, err := readJournal(v)
		if err != nil {
			r.fail(I18, v.Revision, t.journalKey().String(), "its epoch cannot be read: %v", err)
			continue
		}
		reset := slices.ContainsFunc(resets, func(at int64) bool { return at > lastRevision && at < v.Revision })
		if j.epoch < last && !reset {
			r.fail(I18, v.Revision, t.journalKey().String(), "its epoch goes back from %d to %d", last, j.epoch)
		}
		last, lastRevision = j.epoch, v.Revision
	}
}
