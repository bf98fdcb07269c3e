package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulingDecision says why a pod waits, or where it went. It has the name of
// its pod, and belongs to it. Berth alone writes it; it goes when the pod is bound,
// and a record of the bind goes a minute later.
//
// It has no status subresource: one would strip the status at creation, which
// made two writes of one.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=sdec;why,categories=berth
// +kubebuilder:selectablefield:JSONPath=".status.result"
// +kubebuilder:selectablefield:JSONPath=".status.profile.name"
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=".status.profile.name",description="The profile that decided"
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=".status.result",description="How the last attempt ended, or why there is none"
// +kubebuilder:printcolumn:name="Fits",type=string,JSONPath=".status.nodes.summary",description="How many nodes the pod fits on, of how many"
// +kubebuilder:printcolumn:name="Blocked-By",type=string,JSONPath=".status.blockedBy",description="Who keeps the pod from how many nodes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".status.lastChange",description="Since it is so"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.message",priority=1,description="The refusal as the pod's condition has it"
type SchedulingDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is the decision.
	// +optional
	Status SchedulingDecisionStatus `json:"status,omitempty"`
}

// SchedulingDecisionList is a list of SchedulingDecisions.
//
// +kubebuilder:object:root=true
type SchedulingDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SchedulingDecision `json:"items"`
}

// What a SchedulingDecision has room for; whoever writes it cuts what exceeds
// that. Texts are measured in characters, lists in entries.
const (
	MaxExplanation  = 4096 // message
	MaxReason       = 1024 // a reason, and blockedBy
	MaxName         = 253  // the name of a plugin, profile, node or event
	MaxResource     = 317  // the name of a resource
	MaxToken        = 64   // a hash, a code, an amount
	MaxReasons      = 64   // rejections, wakesOn, and the lists in them
	MaxClosestNodes = 10   // nearest
)

// DecisionResult is how a pod's last attempt ended, or why there is none.
//
// +kubebuilder:validation:Enum=Bound;Unschedulable;Gated;Held;WaitingOnPermit;Preempting;Error;Quarantined
type DecisionResult string

// The results of a decision.
const (
	// ResultBound: the pod has a node.
	ResultBound DecisionResult = "Bound"
	// ResultUnschedulable: the pod fits nowhere for now.
	ResultUnschedulable DecisionResult = "Unschedulable"
	// ResultGated: a PreEnqueue plugin keeps the pod from being tried.
	ResultGated DecisionResult = "Gated"
	// ResultParked: the profile is paused, deleted or not for this pod.
	ResultHeld DecisionResult = "Held"
	// ResultWaitingOnPermit: a node is chosen, and a Permit plugin has the pod
	// wait.
	ResultWaitingOnPermit DecisionResult = "WaitingOnPermit"
	// ResultPreempting: others are evicted to make room.
	ResultPreempting DecisionResult = "Preempting"
	// ResultError: the attempt failed, and is made again.
	ResultError DecisionResult = "Error"
	// ResultSetAside: plugins panic or hang at the pod, again and again.
	ResultQuarantined DecisionResult = "Quarantined"
)

// SchedulingDecisionStatus is what is known of one pod. Its size grows with
// plugins and reasons, not with nodes, and it names no pod but its own.
type SchedulingDecisionStatus struct {
	// result is how the last attempt ended, or why there is none.
	// +required
	Result DecisionResult `json:"result"`

	// profile is what decided.
	// +required
	Profile DecidedBy `json:"profile"`

	// message is the refusal or the error, as the pod's condition has it.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// blockedBy says which plugins keep the pod from how many nodes, or which
	// one from being tried.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BlockedBy string `json:"blockedBy,omitempty"`

	// nodes counts the nodes; absent where no attempt got to them, and, under
	// detail: Reasons, where the pod fits on some of them.
	// +optional
	Nodes *DecisionNodes `json:"nodes,omitempty"`

	// rejections are the reasons, by plugin, those of most nodes first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rejections []Rejection `json:"rejections,omitempty"`

	// closestNodes are the nodes of which least keeps the pod, and all that is missing
	// there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ClosestNodes []ClosestNode `json:"closestNodes,omitempty"`

	// queue is where the pod waits.
	// +optional
	Queue *DecisionQueue `json:"queue,omitempty"`

	// requeueEvents are the events upon which the plugins that refused the pod are
	// asked whether it may fit now.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	RequeueEvents []RequeueEvents `json:"requeueEvents,omitempty"`

	// preemption is what was found when room was looked for.
	// +optional
	Preemption *PreemptionResult `json:"preemption,omitempty"`

	// lastChange is when the above came to be so.
	// +required
	LastChange metav1.Time `json:"lastChange"`
}

// DecidedBy names a running instance of a profile.
type DecidedBy struct {
	// name is the SchedulingProfile.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// generation is the profile's metadata.generation that ran.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// hash is the hash of what ran.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
}

// DecisionNodes counts the nodes of an attempt.
type DecisionNodes struct {
	// total is how many nodes the cluster has.
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// evaluated is how many of them were asked.
	// +kubebuilder:validation:Minimum=0
	Evaluated int32 `json:"evaluated"`
	// feasible is on how many of those the pod fits.
	// +kubebuilder:validation:Minimum=0
	Feasible int32 `json:"feasible"`
	// summary is feasible/total.
	// +kubebuilder:validation:MaxLength=64
	Summary string `json:"summary"`
}

// Rejection is one reason, and on how many nodes it holds.
type Rejection struct {
	// plugin is who refused; empty where no plugin was asked.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`
	// code is the plugin's verdict: Unschedulable, UnschedulableAndUnresolvable
	// or Pending.
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`
	// reason is the plugin's text.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// nodes is how many nodes it holds for.
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
	// exampleNode is one of them, where the profile's detail is Nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ExampleNode string `json:"exampleNode,omitempty"`
}

// NearMiss is a node that the pod nearly fits on.
type ClosestNode struct {
	// node is its name, where the profile's detail is Nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// missing is all that keeps the pod from it.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Missing []Missing `json:"missing"`
}

// Missing is one thing that keeps a pod from a node: an amount of a resource
// that is not free, or what a plugin says.
type Missing struct {
	// resource is what is short; empty where it is not an amount.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`
	// requested is how much of it the pod asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Requested string `json:"requested,omitempty"`
	// free is how much of it the node has left.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Free string `json:"free,omitempty"`
	// plugin is who refuses, where it is not an amount.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`
	// reason is the plugin's text.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// DecisionQueue is where a pod waits.
type DecisionQueue struct {
	// where is the part of the queue.
	// +kubebuilder:validation:Enum=Active;Backoff;Unschedulable;Gated;Held;InFlight
	Where string `json:"where"`
	// since is when the pod was put there.
	Since metav1.Time `json:"since"`
	// gate is the PreEnqueue plugin that holds a gated pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Gate string `json:"gate,omitempty"`
}

// WakesOn are the events that one plugin registered for.
type RequeueEvents struct {
	// plugin is the plugin.
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin"`
	// events are the events, as resource/action.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Events []string `json:"events"`
}

// PreemptionOutcome is how the search for room ended.
//
// +kubebuilder:validation:Enum=NoCandidates;NotEligible;VictimsChosen;UnderWay;Failed
type PreemptionOutcome string

// The outcomes of a preemption.
const (
	// PreemptionNoCandidates: nobody's leaving would help.
	PreemptionNoCandidates PreemptionOutcome = "NoCandidates"
	// PreemptionNotEligible: the pod may not have others evicted now.
	PreemptionNotEligible PreemptionOutcome = "NotEligible"
	// PreemptionVictimsChosen: pods were told to leave.
	PreemptionVictimsChosen PreemptionOutcome = "VictimsChosen"
	// PreemptionUnderWay: pods that were told before have not left yet.
	PreemptionUnderWay PreemptionOutcome = "UnderWay"
	// PreemptionFailed: the search ended in an error.
	PreemptionFailed PreemptionOutcome = "Failed"
)

// PreemptionTried is what was found when room was looked for. Victims are
// counted, never named: they may be of other namespaces.
type PreemptionResult struct {
	// candidates is on how many nodes others could have made room.
	// +kubebuilder:validation:Minimum=0
	Candidates int32 `json:"candidates"`
	// victims is how many pods leave the node that was chosen.
	// +kubebuilder:validation:Minimum=0
	Victims int32 `json:"victims"`
	// outcome is how the search ended.
	Outcome PreemptionOutcome `json:"outcome"`
}
