package v1alpha1

// GroupSource is how the pods of a group name it.
//
// +kubebuilder:validation:Enum=PodGroup;Annotation;Coscheduling;Kueue
type GroupSource string

// The sources of groups.
const (
	// GroupOfPodGroup: spec.schedulingGroup names a PodGroup of scheduling.k8s.io.
	GroupOfPodGroup GroupSource = "PodGroup"
	// GroupOfAnnotation: the annotation berth.dev/pod-group names the group.
	GroupOfAnnotation GroupSource = "Annotation"
	// GroupOfCoscheduling: the label of SIG Scheduling's coscheduling plugin names a
	// PodGroup of scheduling.x-k8s.io.
	GroupOfCoscheduling GroupSource = "Coscheduling"
	// GroupOfKueue: the label that Kueue reads on plain pods names the group.
	GroupOfKueue GroupSource = "Kueue"
)

// DecisionGroup is the group that a pod is scheduled with. Its pods wait for the same
// reason, which is not written for each of them: the first pod has the counts of the
// group, the first one that fits on no node has its rejections and closest nodes, and the
// others name the first in explainedBy.
type DecisionGroup struct {
	// source is how the pods name their group.
	// +required
	Source GroupSource `json:"source"`
	// name is the name of the group, which is in the namespace of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// explainedBy is the pod of the group whose SchedulingDecision says more about why
	// the group waits; absent where none does.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ExplainedBy string `json:"explainedBy,omitempty"`
	// minCount is how many pods must be scheduled together; absent where the
	// SchedulingDecision of explainedBy has the counts, or where it is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinCount int32 `json:"minCount,omitempty"`
	// pods is how many pods the group has; absent where the SchedulingDecision of
	// explainedBy has the counts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pods int32 `json:"pods,omitempty"`
	// fit is how many of the pods have a node, or got one in the last attempt, with the
	// others before them on their nodes; absent when the group was not tried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Fit *int32 `json:"fit,omitempty"`
	// notTried is how many of the pods were not tried any more, since it was clear that
	// too few fit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	NotTried int32 `json:"notTried,omitempty"`
}
