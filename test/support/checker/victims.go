package checker

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/test/support/history"
)

const (
	// A leader writes the nomination after the conditions of the victims. One that ended shortly
	// after a condition has not written it, and a request that it sent may arrive later.
	nominationLate, requestLate = 5 * time.Second, 10 * time.Second
)

// checkVictims checks each pod that a profile of Berth preempts: for a pod of a higher priority
// that is nominated for its node, or was bound to it afterwards, and that may preempt. Where the
// leader ended meanwhile, such a pod must have waited.
func (r *results) checkVictims(t *timeline) {
	for _, k := range t.keysOf("Pod") {
		var before *history.Change
		for _, v := range t.versions[k] {
			pod := v.Object.(*corev1.Pod)
			fresh := before == nil || before.Object.GetUID() != pod.UID
			if by := preemptedBy(pod); by != "" && t.profiles[by] && (fresh || preemptedBy(before.Object.(*corev1.Pod)) == "") {
				r.checkVictim(t, v, by)
			}
			before = v
		}
	}
}

// preemptedBy returns the schedulerName of the preemptor in the condition of a victim; "" for
// other pods.
func preemptedBy(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler {
			by, _, _ := strings.Cut(c.Message, ":")
			return by
		}
	}
	return ""
}

func (r *results) checkVictim(t *timeline, v *history.Change, scheduler string) {
	r.checked(I15)
	victim := v.Object.(*corev1.Pod)
	name, lower, ended := keyOf(victim).String(), false, t.leaderEndedAbout(v.Seen)
	for _, k := range t.pods {
		for _, other := range t.versions[k] {
			pod := other.Object.(*corev1.Pod)
			if pod.Spec.SchedulerName != scheduler || pod.UID == victim.UID || other.Deleted && other.Revision < v.Revision {
				continue
			}
			there := pod.Status.NominatedNodeName == victim.Spec.NodeName || pod.Spec.NodeName == victim.Spec.NodeName && other.Revision > v.Revision
			waited := ended && pod.Spec.NodeName == "" && other.Revision < v.Revision
			if !waited && !(there && t.pendingAt(k, pod, v.Revision)) {
				continue
			}
			never := pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever
			if priority(pod) > priority(victim) && !never {
				return
			}
			lower = true
		}
	}
	if lower {
		r.fail(I15, v.Revision, name, "it has priority %d and was preempted, and no pod that is nominated for %s has a higher one and may preempt", priority(victim), victim.Spec.NodeName)
		return
	}
	r.fail(I15, v.Revision, name, "it was preempted, and no pod of %s was nominated for or bound to %s", scheduler, victim.Spec.NodeName)
}

// leaderEndedAbout reports whether a leader ended shortly before a time or shortly after it.
func (t *timeline) leaderEndedAbout(at time.Time) bool {
	for _, end := range t.leaderEnds() {
		if since := at.Sub(end); since > -nominationLate && since < requestLate {
			return true
		}
	}
	return false
}

// pendingAt reports whether a pod existed and had no node at a revision.
func (t *timeline) pendingAt(k key, pod *corev1.Pod, revision int64) bool {
	version := t.at(k, revision)
	return version != nil && version.Object.GetUID() == pod.UID && version.Object.(*corev1.Pod).Spec.NodeName == ""
}
