package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SchedulingProfileStatus is what Berth observed of a profile. Berth writes conditions,
// programmed and resolved at once; it writes the other fields when they changed, at
// most every spec.decisions.publishSeconds.
type SchedulingProfileStatus struct {
	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, ResolvedRefs, Programmed and Ready, and where they apply
	// Exported, Degraded and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// programmed is what runs. It is absent when nothing runs.
	// +optional
	Programmed *ProgrammedProfile `json:"programmed,omitempty"`

	// resolved are the PluginConfigs that the conditions are about.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Resolved []ObjectGeneration `json:"resolved,omitempty"`

	// trial is the result of the newest trial of a spec, with pending pods and pods
	// that were placed lately, on a copy of the cluster. It is absent when there was no
	// trial: a spec that ran before a restart is not tried again.
	// +optional
	Trial *TrialStatus `json:"trial,omitempty"`

	// queue counts the profile's pods by where they wait.
	// +optional
	Queue *QueueStatus `json:"queue,omitempty"`

	// totals count decisions since the time in their field since. A new leader
	// continues the counts. When a leader was killed, the decisions of its last
	// spec.decisions.publishSeconds are not counted.
	// +optional
	Totals *DecisionTotals `json:"totals,omitempty"`

	// lastDecisionTime is the time of the newest decision.
	// +optional
	LastDecisionTime *metav1.Time `json:"lastDecisionTime,omitempty"`

	// recentDecisions are the newest decisions, newest first. They are a sample: see
	// omittedDecisions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	RecentDecisions []RecentDecision `json:"recentDecisions,omitempty"`

	// omittedDecisions is how many decisions of the totals are not in recentDecisions.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedDecisions int64 `json:"omittedDecisions,omitempty"`
}

// ObjectGeneration identifies one generation of an object whose kind is known.
type ObjectGeneration struct {
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// generation is the object's metadata.generation.
	// +required
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`

	// uid is the object's metadata.uid. An object that is deleted and created again
	// under its name has generation 1 again, and another uid. It is absent when the
	// status was written by a version of Berth that did not record it.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
}

// SameObject reports whether the entry may be about the object with the given UID, as it may
// where one of the two has no UID.
func (g ObjectGeneration) SameObject(uid types.UID) bool {
	return g.UID == "" || uid == "" || g.UID == uid
}

// ProgrammedProfile is what runs under the profile's name.
type ProgrammedProfile struct {
	// generation is the metadata.generation of the profile that runs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// hash identifies what runs: plugins, arguments, queue and decision settings,
	// whichever object they are written in, and Berth's version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// revision is the name of the ControllerRevision in Berth's namespace that holds
	// the whole spec. It is absent when the spec is not stored; the message of
	// Programmed says why.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// time is when it began to run.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// configs are the PluginConfigs whose arguments run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Configs []ObjectGeneration `json:"configs,omitempty"`

	// plugins are the plugins that run, after all merging.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1024
	Plugins []ProgrammedPlugin `json:"plugins,omitempty"`
}

// MaxLostPods is how many lost pods a trial lists at most.
const MaxLostPods = 50

// TrialStatus is the result of a trial. Before a spec runs, Berth evaluates its plugins
// with pods of the profile, on a copy of the cluster. The numbers count pods. At least
// fitBefore minus fitAfter pods were lost.
type TrialStatus struct {
	// hash identifies what was tried, as in programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// sampled is how many pods were evaluated: at most 200 pending pods and 50 of those
	// that were placed last.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sampled int64 `json:"sampled"`

	// fitBefore is for how many of them a node is feasible with what runs. It is absent
	// when nothing ran.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FitBefore *int64 `json:"fitBefore,omitempty"`

	// fitAfter is for how many of them a node is feasible with what was tried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FitAfter int64 `json:"fitAfter"`

	// lost are the first pods for which a node is feasible with what runs and none with
	// what was tried.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Lost []PodReference `json:"lost,omitempty"`

	// time is when the trial was made.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
}

// PodReference names a pod.
type PodReference struct {
	// namespace is the pod's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// pod is the pod's name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`
}

// ExtensionPoint is an extension point of the scheduling framework, named as the
// framework's interfaces are.
//
// +kubebuilder:validation:Enum=PreEnqueue;QueueSort;PreFilter;Filter;PostFilter;PreScore;Score;Reserve;Permit;PreBind;Bind;PostBind;PlacementFeasible;PodGroupPostFilter
type ExtensionPoint string

// ProgrammedPlugin is one plugin that runs.
type ProgrammedPlugin struct {
	// name is the plugin's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// points are the extension points at which the plugin runs, in the order of a
	// scheduling attempt; then those that only groups of pods have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=14
	Points []ExtensionPoint `json:"points,omitempty"`

	// weight multiplies the plugin's score. It is absent when the plugin does not
	// score.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight int32 `json:"weight,omitempty"`

	// args says where the plugin's arguments come from: Default, Inline, or
	// PluginConfig/ and a name. It is absent when the plugin takes none.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Args string `json:"args,omitempty"`
}

// QueueStatus counts the profile's pods by where they wait.
type QueueStatus struct {
	// pending is how many pods wait, in any part of the queue.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int64 `json:"pending"`

	// active is how many pods are ready for a scheduling attempt.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Active int64 `json:"active"`

	// backoff is how many pods wait for their backoff to end.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Backoff int64 `json:"backoff"`

	// unschedulable is how many pods wait for a cluster event that may make them
	// schedulable.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unschedulable int64 `json:"unschedulable"`

	// gated is how many pods a PreEnqueue plugin keeps out of the active queue.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gated int64 `json:"gated"`

	// waiting is how many pods wait for a Permit plugin.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting int64 `json:"waiting"`

	// held is how many pods wait for a change of the profile, or request what Berth
	// does not support.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Held int64 `json:"held"`

	// quarantined is how many pods Berth does not try for a while, since plugins
	// panicked or hung at them.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quarantined int64 `json:"quarantined"`

	// inFlight is how many pods are in a scheduling attempt or being bound. They are
	// not pending.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InFlight int64 `json:"inFlight"`
}

// DecisionTotals count decisions.
type DecisionTotals struct {
	// since is when counting began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// bound is how many pods were bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bound int64 `json:"bound"`

	// refusals is how many attempts found no feasible node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Refusals int64 `json:"refusals"`

	// errors is how many attempts failed with an error.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Errors int64 `json:"errors"`

	// victims is how many pods were preempted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Victims int64 `json:"victims"`

	// decisionsDropped is how many records of decisions were dropped under load.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DecisionsDropped int64 `json:"decisionsDropped"`
}

// MaxDecisionMessage is how many characters of a decision's message the status holds;
// the writer truncates longer ones.
const MaxDecisionMessage = 1024

// RecentDecision is one decision about one pod.
type RecentDecision struct {
	// time is when the decision was made.
	// +optional
	Time metav1.Time `json:"time,omitzero"`

	// namespace is the pod's namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// pod is the pod's name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod,omitempty"`

	// result is how the attempt ended.
	// +optional
	Result DecisionResult `json:"result,omitempty"`

	// node is the node that the pod was bound to. It is absent when the pod was not
	// bound.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// generation is the metadata.generation of the profile that made the decision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// hash identifies what made the decision, as in programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// message says why the pod was not bound.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
