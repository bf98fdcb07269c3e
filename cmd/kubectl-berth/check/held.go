package check

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

const (
	// reasonProfilePaused is the only reason that is not a failure: a user asked for it.
	reasonProfilePaused  = "ProfilePaused"
	reasonProfileDeleted = "ProfileDeleted"
)

// holdReasons are the reasons of the condition PodScheduled of pods that Berth holds.
var holdReasons = []string{reasonProfileDeleted, reasonProfilePaused, "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "Quarantined"}

// profileAndReason is the profile of held pods and the reason of their condition
// PodScheduled.
type profileAndReason struct{ profile, reason string }

// heldPods are the held pods of one profile and reason.
type heldPods struct {
	count int
	// first is the pod whose namespace and name come first, message that of its condition.
	first, message string
}

// heldPodsByReason are the held pods by profile and reason.
type heldPodsByReason map[profileAndReason]heldPods

// add counts a pod if it is held.
func (h heldPodsByReason) add(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && slices.Contains(holdReasons, c.Reason)
	})
	if i < 0 || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	condition, name := pod.Status.Conditions[i], pod.Namespace+"/"+pod.Name
	key := profileAndReason{pod.Spec.SchedulerName, condition.Reason}
	pods := h[key]
	if pods.count++; pods.count == 1 || name < pods.first {
		pods.first, pods.message = name, condition.Message
	}
	h[key] = pods
}

// anyProfileDeleted reports whether a pod is held because its profile was deleted: its
// schedulerName is not served.
func (h heldPodsByReason) anyProfileDeleted() bool {
	for key := range h {
		if key.reason == reasonProfileDeleted {
			return true
		}
	}
	return false
}

// report adds a finding for each profile and reason: a failure, unless a user paused the
// profile.
func (h heldPodsByReason) report(r *report) {
	for _, key := range slices.SortedFunc(maps.Keys(h), func(a, b profileAndReason) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.reason, b.reason))
	}) {
		add, pods := r.fail, h[key]
		if key.reason == reasonProfilePaused {
			add = r.note
		}
		add("pods", "%s of profile %s held (first: %s): %s: %s", show.Count(pods.count, "pod"), key.profile, pods.first, key.reason, pods.message)
	}
}
