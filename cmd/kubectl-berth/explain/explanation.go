package explain

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Explanation is the output of -o json for a pod.
type Explanation struct {
	// Pod is namespace/name.
	Pod string `json:"pod"`
	// SchedulerName is spec.schedulerName.
	SchedulerName string `json:"schedulerName"`
	// Node is empty for a pending pod.
	Node string `json:"node,omitempty"`
	// Condition is the pod's condition PodScheduled.
	Condition *corev1.PodCondition `json:"condition,omitempty"`
	// Decision is the decision that bound the pod, from the annotation berth.dev/decision.
	Decision *decision.Decision `json:"decision,omitempty"`
	// SchedulingDecision is the status of the pod's SchedulingDecision, which a pending pod has.
	SchedulingDecision *v1alpha1.SchedulingDecisionStatus `json:"schedulingDecision,omitempty"`
	// Group are the SchedulingDecisions of other pods of the pod's group that say more about
	// why the group waits: each names the next.
	Group []GroupDecision `json:"group,omitempty"`
	// Programmed is what is running of the pod's profile.
	Programmed *v1alpha1.DecidedBy `json:"programmed,omitempty"`
	// Notes say why a field is empty.
	Notes []string `json:"notes,omitempty"`
}

// explanationOf returns what is known of a pod; d may be nil.
func explanationOf(pod *corev1.Pod, w profileInfo, d *v1alpha1.SchedulingDecisionStatus) Explanation {
	e := Explanation{
		Pod: pod.Namespace + "/" + pod.Name, SchedulerName: pod.Spec.SchedulerName, Node: pod.Spec.NodeName,
		Condition: podScheduled(pod), SchedulingDecision: d,
	}
	if w.profile != nil && w.profile.Status.Programmed != nil {
		running := w.profile.Status.Programmed
		e.Programmed = &v1alpha1.DecidedBy{Name: w.profile.Name, Generation: running.Generation, Hash: running.Hash}
	}
	_, annotated := pod.Annotations[v1alpha1.AnnotationDecision]
	switch {
	case w.known && w.profile == nil && !profileDeleted(pod):
		e.Notes = append(e.Notes, otherSchedulerMessage(pod, w.names))
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		e.Notes = append(e.Notes, "The pod is being deleted and is not scheduled.")
	}
	if pod.Spec.NodeName == "" || !annotated {
		return e
	}
	decided, err := readAnnotation(pod)
	if err != nil {
		e.Notes = append(e.Notes, err.Error())
		return e
	}
	e.Decision = &decided
	return e
}
