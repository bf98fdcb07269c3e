package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulingProfileStatus is what Berth says about a profile. Conditions,
// programmed and resolved are written at once; the rest when it changed, at
// most every spec.decisions.publishSeconds.
type SchedulingProfileStatus struct {
	// observedGeneration is the metadata.generation that the conditions speak
	// about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted, ResolvedRefs, Programmed, Ready and, while the
	// user must act, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// programmed is what runs. Absent: nothing does.
	// +optional
	Programmed *ProgrammedProfile `json:"programmed,omitempty"`

	// resolved are the PluginConfigs that the conditions speak about.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Resolved []ObjectGeneration `json:"resolved,omitempty"`

	// trial is how the newest spec that was tried did on pods that wait and
	// pods that run. Absent: none was tried; one that ran before a restart is
	// not tried again.
	// +optional
	Trial *TrialStatus `json:"trial,omitempty"`

	// queue says where the profile's pods wait.
	// +optional
	Queue *QueueStatus `json:"queue,omitempty"`

	// totals count what was decided since their field since. A new leader goes on from
	// what they say: what the leader before decided in its last spec.decisions.publishSeconds
	// is not counted when it was killed.
	// +optional
	Totals *DecisionTotals `json:"totals,omitempty"`

	// lastDecisionTime is when the newest decision was made.
	// +optional
	LastDecisionTime *metav1.Time `json:"lastDecisionTime,omitempty"`

	// recentDecisions are the newest decisions, newest first: a sample, see
	// omittedDecisions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	RecentDecisions []RecentDecision `json:"recentDecisions,omitempty"`

	// omittedDecisions is how many decisions of the totals recentDecisions does
	// not hold.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedDecisions int64 `json:"omittedDecisions,omitempty"`
}

// ObjectGeneration names one generation of one object of a known kind.
type ObjectGeneration struct {
	// name is the object's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// generation is its metadata.generation.
	// +required
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation"`
}

// ProgrammedProfile is what runs under the profile's name.
type ProgrammedProfile struct {
	// generation is the profile's metadata.generation that runs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// hash names what runs: plugins, arguments, queue and decisions, whichever
	// object they were written in, and Berth's version.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// revision names the ControllerRevision in Berth's namespace that holds the
	// whole of it. Absent when none does: Programmed's message says why.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Revision string `json:"revision,omitempty"`

	// time is when it began to run.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// configs are the PluginConfigs that it runs with.
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

// MaxLost is how many lost pods a trial names.
const MaxLostPods = 50

// TrialStatus is what a trial found out: before a spec runs, its plugins are
// asked about pods of the profile, on a copy of the cluster. The numbers are of
// pods; how many were lost is at least fitBefore less fitAfter.
type TrialStatus struct {
	// hash names what was tried, as in programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// sampled is how many pods were asked about: at most 200 that wait and 50 of
	// those that were placed last.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Sampled int64 `json:"sampled"`

	// fitBefore is how many of them have a place by what runs. Absent where
	// nothing ran.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FitBefore *int64 `json:"fitBefore,omitempty"`

	// fitAfter is how many of them have a place by what was tried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FitAfter int64 `json:"fitAfter"`

	// lost are pods that have a place by what runs and would have none by what
	// was tried, the first of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Lost []PodReference `json:"lost,omitempty"`

	// time is when it was tried.
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

// ExtensionPoint is a place where a plugin runs, named as the scheduling
// framework's interfaces are.
//
// +kubebuilder:validation:Enum=PreEnqueue;QueueSort;PreFilter;Filter;PostFilter;PreScore;Score;Reserve;Permit;PreBind;Bind;PostBind
type ExtensionPoint string

// ProgrammedPlugin is one plugin that runs.
type ProgrammedPlugin struct {
	// name is the plugin's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// points are where it runs, in the order in which a pod meets them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=12
	Points []ExtensionPoint `json:"points,omitempty"`

	// weight multiplies its score. Absent where it does not score.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight int32 `json:"weight,omitempty"`

	// args says where its arguments came from: Default, Inline, or
	// PluginConfig/ and a name. Absent where it takes none.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Args string `json:"args,omitempty"`
}

// QueueStatus counts the profile's pods by where they are.
type QueueStatus struct {
	// pending is how many pods wait, in whatever place.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending int64 `json:"pending"`

	// active is how many pods are about to be tried.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Active int64 `json:"active"`

	// backoff is how many pods wait for a time to pass.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Backoff int64 `json:"backoff"`

	// unschedulable is how many pods wait for a change in the cluster.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unschedulable int64 `json:"unschedulable"`

	// gated is how many pods a preEnqueue plugin holds back.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Gated int64 `json:"gated"`

	// waiting is how many pods wait on a permit plugin.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Waiting int64 `json:"waiting"`

	// held is how many pods wait for the profile itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Held int64 `json:"held"`

	// quarantined is how many pods are kept from harming others.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quarantined int64 `json:"quarantined"`

	// inFlight is how many pods are being tried or bound; they are not pending.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InFlight int64 `json:"inFlight"`
}

// DecisionTotals count what was decided.
type DecisionTotals struct {
	// since is when counting began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// bound is how many pods were bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Bound int64 `json:"bound"`

	// refusals is how many attempts found no node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Refusals int64 `json:"refusals"`

	// errors is how many attempts failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Errors int64 `json:"errors"`

	// victims is how many pods were preempted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Victims int64 `json:"victims"`

	// decisionsDropped is how many records were dropped under load.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DecisionsDropped int64 `json:"decisionsDropped"`
}

// MaxDecisionMessage is how many characters of a decision's message the status
// holds; a longer one is cut by whoever writes it.
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

	// node is where the pod went. Absent when it went nowhere.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// generation is the profile's generation that decided.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`

	// hash names what decided, as in programmed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// message says why the pod went nowhere.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
