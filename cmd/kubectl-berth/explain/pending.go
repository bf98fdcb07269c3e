package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/cmd/kubectl-berth/cluster"
	"github.com/berthdev/berth/cmd/kubectl-berth/show"
)

// explainPending returns why a pod is pending.
func (o *options) explainPending(pod *corev1.Pod, w profileInfo, e Explanation) string {
	return fmt.Sprintf("%s/%s: Pending for %s\n", pod.Namespace, pod.Name, show.Age(pod.CreationTimestamp, o.Now())) + o.pendingText(pod, w, e)
}

// pendingText returns why a pod is pending, for a title that names it.
func (o *options) pendingText(pod *corev1.Pod, w profileInfo, e Explanation) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "The pod is being deleted and is not scheduled.\n"
	case w.known && w.profile == nil && !profileDeleted(pod):
		return show.Wrap(otherSchedulerMessage(pod, w.names), "", "") + "\n"
	}
	condition, message, profile := "no PodScheduled condition yet", "", pod.Spec.SchedulerName
	if c := podScheduled(pod); c != nil {
		condition, message = fmt.Sprintf("PodScheduled=%s (%s), %s ago", c.Status, c.Reason, show.Age(c.LastTransitionTime, o.Now())), c.Message
	}
	if p := w.profile; p != nil && p.Status.Programmed != nil {
		profile = fmt.Sprintf("%s, generation %d, hash %s (running)", p.Name, p.Status.Programmed.Generation, p.Status.Programmed.Hash)
	}
	d, blocked := e.SchedulingDecision, ""
	_, cause := e.cause()
	if cause != nil {
		blocked = cause.BlockedBy
	}
	return "\n" + formatFields("Group", o.groupText(e), "Profile", profile, "Condition", condition, "Message", message, "Result", o.resultText(pod, d), "Blocked by", blocked,
		"In queue", o.queuePlaceText(d), "Preemption", preemptionText(e.preemption()), "Nominated", nominatedText(pod, e), "Queue", queueText(w.profile)) + e.causeTitle() + rejectionText(cause)
}

// nominatedText says why the pod has a nominated node; "" for a pod without one. Not only
// preemption nominates: Berth writes the node of each pod whose binding takes a while, and
// other components may, too.
func nominatedText(pod *corev1.Pod, e Explanation) string {
	node := pod.Status.NominatedNodeName
	switch {
	case node == "":
		return ""
	case !e.preempts():
		return node + ", which is chosen for the pod; it is not bound yet"
	case e.SchedulingDecision.Group != nil:
		return node + ", once the victims of its group have terminated"
	}
	return node + ", once its victims there have terminated"
}

// queueText says how many pods of a profile are pending, and where in the queue.
func queueText(p *v1alpha1.SchedulingProfile) string {
	if p == nil || p.Status.Queue == nil {
		return ""
	}
	q := p.Status.Queue
	text := show.Count(int(q.Pending), "pod") + " of the profile pending"
	for _, place := range []struct {
		count int64
		name  string
	}{
		{q.Active, "active"}, {q.Backoff, "in backoff"}, {q.Unschedulable, "unschedulable"}, {q.Gated, "gated"},
		{q.Waiting, "waiting on Permit"}, {q.Held, "held"}, {q.Quarantined, "quarantined"},
	} {
		if place.count > 0 {
			text += fmt.Sprintf(", %d %s", place.count, place.name)
		}
	}
	return text
}

// profileDeleted reports whether Berth holds the pod because its profile was deleted.
func profileDeleted(pod *corev1.Pod) bool {
	c := podScheduled(pod)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProfileDeleted"
}

// otherSchedulerMessage says which scheduler a pod without a profile belongs to.
func otherSchedulerMessage(pod *corev1.Pod, profiles []string) string {
	name := pod.Spec.SchedulerName
	c := podScheduled(pod)
	switch {
	case name == corev1.DefaultSchedulerName:
		text := "The pod is not scheduled by Berth: spec.schedulerName is default-scheduler."
		if c != nil && c.Status == corev1.ConditionFalse {
			text += fmt.Sprintf(" Condition PodScheduled=False (%s): %s", c.Reason, c.Message)
		}
		return text
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("The pod is not scheduled by Berth: spec.schedulerName is %s.", name)
	case c != nil && c.Status == corev1.ConditionFalse:
		return fmt.Sprintf("The pod is not scheduled by Berth: spec.schedulerName is %s. Condition PodScheduled=False (%s): %s", name, c.Reason, c.Message)
	}
	return fmt.Sprintf("No scheduler has handled the pod, and none may: %s. Another scheduler may serve that name.", cluster.ProfileNotFound(name, profiles))
}
