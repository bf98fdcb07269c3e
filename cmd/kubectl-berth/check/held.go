package check

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

const (
	// paused is the reason of a hold that somebody asked for.
	reasonProfilePaused = "ProfilePaused"
	// gone is the reason of a hold by a profile that is there no more.
	reasonProfileDeleted = "ProfileDeleted"
)

// holds are the reasons of PodScheduled with which Berth keeps pods from being tried.
var holdReasons = []string{reasonProfileDeleted, reasonProfilePaused, "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "Quarantined"}

// hold is a profile, and why pods of it are held.
type profileAndReason struct{ profile, reason string }

// heldPods are the pods of one hold.
type heldPods struct {
	count int
	// first is the one whose name comes first, message what that is told.
	first, message string
}

// byHold are the held pods of profiles.
type heldPodsByReason map[profileAndReason]heldPods

// add counts a pod that is held, and passes over others.
func (h heldPodsByReason) add(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && slices.Contains(holdReasons, c.Reason)
	})
	if i < 0 || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	told, name := pod.Status.Conditions[i], pod.Namespace+"/"+pod.Name
	by := profileAndReason{pod.Spec.SchedulerName, told.Reason}
	pods := h[by]
	if pods.count++; pods.count == 1 || name < pods.first {
		pods.first, pods.message = name, told.Message
	}
	h[by] = pods
}

// deleted says whether pods wait for a profile that was deleted: nobody serves its name.
func (h heldPodsByReason) anyProfileDeleted() bool {
	for by := range h {
		if by.reason == reasonProfileDeleted {
			return true
		}
	}
	return false
}

// tell reports each hold: as wrong, unless somebody paused the profile.
func (h heldPodsByReason) report(r *report) {
	for _, by := range slices.SortedFunc(maps.Keys(h), func(a, b profileAndReason) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.reason, b.reason))
	}) {
		say, pods := r.wrong, h[by]
		if by.reason == reasonProfilePaused {
			say = r.note
		}
		say("pods", "%s of profile %s held, %s first: %s: %s", show.Count(pods.count, "pod"), by.profile, pods.first, by.reason, pods.message)
	}
}
