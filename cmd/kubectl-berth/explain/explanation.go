package explain

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/berth/api/v1alpha1"
	"github.com/berthdev/berth/scheduler/decision"
)

// Explanation is what is known of one pod, as -o json has it.
type Explanation struct {
	// Pod is its namespace and name.
	Pod string `json:"pod"`
	// SchedulerName is the pod's own.
	SchedulerName string `json:"schedulerName"`
	// Node is empty for one that waits.
	Node string `json:"node,omitempty"`
	// Condition is the pod's PodScheduled.
	Condition *corev1.PodCondition `json:"condition,omitempty"`
	// Decision is what bound it, from its annotation berth.dev/decision.
	Decision *decision.Decision `json:"decision,omitempty"`
	// SchedulingDecision is the status of the object of that kind; a pod that waits has
	// one.
	SchedulingDecision *v1alpha1.SchedulingDecisionStatus `json:"schedulingDecision,omitempty"`
	// Programmed is what the pod's profile runs now.
	Programmed *v1alpha1.DecidedBy `json:"programmed,omitempty"`
	// Notes say why something is not there.
	Notes []string `json:"notes,omitempty"`
}

// explanationOf puts together what is known of a pod; d may be nil.
func explanationOf(pod *corev1.Pod, w profileInfo, d *v1alpha1.SchedulingDecisionStatus) Explanation {
	e := Explanation{
		Pod: pod.Namespace + "/" + pod.Name, SchedulerName: pod.Spec.SchedulerName, Node: pod.Spec.NodeName,
		Condition: podScheduled(pod), SchedulingDecision: d,
	}
	if w.profile != nil && w.profile.Status.Programmed != nil {
		runs := w.profile.Status.Programmed
		e.Programmed = &v1alpha1.DecidedBy{Name: w.profile.Name, Generation: runs.Generation, Hash: runs.Hash}
	}
	_, annotated := pod.Annotations[decision.AnnotationKey]
	switch {
	case w.known && w.profile == nil && !profileDeleted(pod):
		e.Notes = append(e.Notes, otherSchedulerMessage(pod, w.names))
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		e.Notes = append(e.Notes, "It is being deleted, so nobody schedules it.")
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
