package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// waiting says why a pod has no node; d may be nil.
func (o *options) explainPending(pod *corev1.Pod, w profileInfo, d *v1alpha1.SchedulingDecisionStatus) string {
	return fmt.Sprintf("Pod %s/%s has waited for %s.\n", pod.Namespace, pod.Name, show.Age(pod.CreationTimestamp, o.Now())) + o.pendingText(pod, w, d)
}

// why says why a pod has no node, below a title that names it.
func (o *options) pendingText(pod *corev1.Pod, w profileInfo, d *v1alpha1.SchedulingDecisionStatus) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "It is being deleted, so nobody schedules it.\n"
	case w.known && w.profile == nil && !profileDeleted(pod):
		return show.Wrap(otherSchedulerMessage(pod, w.names), "", "") + "\n"
	}
	told, reason, profile := "nothing yet: nobody has looked at it", "", pod.Spec.SchedulerName
	if c := podScheduled(pod); c != nil {
		told, reason = fmt.Sprintf("%s, %s ago", c.Reason, show.Age(c.LastTransitionTime, o.Now())), c.Message
	}
	if p := w.profile; p != nil && p.Status.Programmed != nil {
		profile = fmt.Sprintf("%s, generation %d, hash %s runs", p.Name, p.Status.Programmed.Generation, p.Status.Programmed.Hash)
	}
	nominated := ""
	if node := pod.Status.NominatedNodeName; node != "" {
		nominated = node + " is kept for it, until who is there has left"
	}
	blocked := ""
	if d != nil {
		blocked = d.BlockedBy
	}
	return "\n" + formatFields("Profile", profile, "Told", told, "Why", reason, "Result", o.resultText(d), "Blocked by", blocked,
		"Waits", o.queuePlaceText(d), "Preemption", preemptionText(d), "Nominated", nominated, "Queue", queueText(w.profile)) + rejectionText(d)
}

// places says where the pods of a profile wait.
func queueText(p *v1alpha1.SchedulingProfile) string {
	if p == nil || p.Status.Queue == nil {
		return ""
	}
	q := p.Status.Queue
	text := fmt.Sprintf("%d of the profile's pods wait", q.Pending)
	for _, place := range []struct {
		n    int64
		what string
	}{
		{q.Active, "about to be tried"}, {q.Backoff, "in backoff"}, {q.Unschedulable, "until something changes"}, {q.Gated, "gated"},
		{q.Waiting, "on a permit"}, {q.Held, "for the profile itself"}, {q.Quarantined, "set aside"},
	} {
		if place.n > 0 {
			text += fmt.Sprintf(", %d %s", place.n, place.what)
		}
	}
	return text
}

// parked says whether Berth holds a pod whose profile is gone.
func profileDeleted(pod *corev1.Pod) bool {
	c := podScheduled(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProfileDeleted"
}

// foreign says whose a pod is that asks for no profile that is there.
func otherSchedulerMessage(pod *corev1.Pod, profiles []string) string {
	name := pod.Spec.SchedulerName
	c := podScheduled(pod)
	switch {
	case name == corev1.DefaultSchedulerName:
		text := "It is kube-scheduler's, not Berth's: spec.schedulerName is default-scheduler."
		if c != nil && c.Status == corev1.ConditionFalse {
			text += fmt.Sprintf(" That one says %s: %s", c.Reason, c.Message)
		}
		return text
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("It is of a scheduler that calls itself %s, not of Berth, and that one does not tell why.", name)
	case c != nil && c.Status == corev1.ConditionFalse:
		return fmt.Sprintf("It is of a scheduler that calls itself %s, not of Berth. That one says %s: %s", name, c.Reason, c.Message)
	}
	return fmt.Sprintf("Nobody has looked at it, and nobody may: %s. Another scheduler may serve that name.", cluster.ProfileNotFound(name, profiles))
}
