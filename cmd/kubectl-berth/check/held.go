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
	paused = "ProfilePaused"
	// gone is the reason of a hold by a profile that is there no more.
	gone = "ProfileDeleted"
)

// holds are the reasons of PodScheduled with which Berth keeps pods from being tried.
var holds = []string{gone, paused, "NamespaceNotAllowed", "Unsupported", "ProfileNotRunning", "SetAside"}

// hold is a profile, and why pods of it are held.
type hold struct{ profile, reason string }

// heldPods are the pods of one hold.
type heldPods struct {
	n int
	// first is the one whose name comes first, message what that is told.
	first, message string
}

// byHold are the held pods of profiles.
type byHold map[hold]heldPods

// add counts a pod that is held, and passes over others.
func (h byHold) add(pod *corev1.Pod) {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && slices.Contains(holds, c.Reason)
	})
	if i < 0 || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return
	}
	told, name := pod.Status.Conditions[i], pod.Namespace+"/"+pod.Name
	by := hold{pod.Spec.SchedulerName, told.Reason}
	pods := h[by]
	if pods.n++; pods.n == 1 || name < pods.first {
		pods.first, pods.message = name, told.Message
	}
	h[by] = pods
}

// deleted says whether pods wait for a profile that was deleted: nobody serves its name.
func (h byHold) deleted() bool {
	for by := range h {
		if by.reason == gone {
			return true
		}
	}
	return false
}

// tell reports each hold: as wrong, unless somebody paused the profile.
func (h byHold) tell(r *report) {
	for _, by := range slices.SortedFunc(maps.Keys(h), func(a, b hold) int {
		return cmp.Or(cmp.Compare(a.profile, b.profile), cmp.Compare(a.reason, b.reason))
	}) {
		say, pods := r.wrong, h[by]
		if by.reason == paused {
			say = r.note
		}
		say("pods", "%s of profile %s held, %s first: %s: %s", show.Count(pods.n, "pod"), by.profile, pods.first, by.reason, pods.message)
	}
}
