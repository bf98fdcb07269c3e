package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SchedulingDecision explains why a pod waits, or where it was bound. It has the name
// of its pod, and the pod owns it. Only Berth writes it. Berth deletes it when the pod
// is bound; the record of a bind is deleted a minute later.
//
// It has no status subresource: the API server would drop the status at creation, so
// that every explanation needed two writes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=sdec;why,categories=berth
// +kubebuilder:selectablefield:JSONPath=".status.result"
// +kubebuilder:selectablefield:JSONPath=".status.profile.name"
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=".status.profile.name",description="The profile that made the decision"
// +kubebuilder:printcolumn:name="Result",type=string,JSONPath=".status.result",description="How the last scheduling attempt ended, or why there was none"
// +kubebuilder:printcolumn:name="Fits",type=string,JSONPath=".status.nodes.summary",description="Feasible nodes of all nodes"
// +kubebuilder:printcolumn:name="Blocked-By",type=string,JSONPath=".status.blockedBy",description="The plugins that reject the pod, and on how many nodes"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".status.lastChange",description="Time since the last change"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.message",priority=1,description="The message of the pod's condition PodScheduled"
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

// The bounds of a SchedulingDecision. The writer truncates what exceeds them. Texts are
// measured in characters, lists in entries.
const (
	MaxExplanation  = 4096 // message
	MaxReason       = 1024 // a reason, and blockedBy
	MaxName         = 253  // the name of a plugin, profile, node or event
	MaxResource     = 317  // the name of a resource
	MaxToken        = 64   // a hash, a code, an amount
	MaxDeviceClaim  = 571  // claim/request, the first as long as the name of a resource
	MaxReasons      = 64   // rejections, requeueEvents, and the lists in them
	MaxClosestNodes = 10   // closestNodes
)

// DecisionResult is how a pod's last scheduling attempt ended, or why there was none.
//
// +kubebuilder:validation:Enum=Bound;Unschedulable;Gated;Held;WaitingOnPermit;Preempting;Error;Quarantined
type DecisionResult string

// The results of a decision.
const (
	// ResultBound: the pod is bound to a node.
	ResultBound DecisionResult = "Bound"
	// ResultUnschedulable: no node is feasible for the pod.
	ResultUnschedulable DecisionResult = "Unschedulable"
	// ResultGated: a PreEnqueue plugin keeps the pod out of the active queue.
	ResultGated DecisionResult = "Gated"
	// ResultHeld: the profile is paused, deleted or not running, or may not be used by
	// this pod, or the pod requests what Berth does not support.
	ResultHeld DecisionResult = "Held"
	// ResultWaitingOnPermit: a node is chosen, and a Permit plugin delays the binding.
	ResultWaitingOnPermit DecisionResult = "WaitingOnPermit"
	// ResultPreempting: victims are being evicted to make room for the pod.
	ResultPreempting DecisionResult = "Preempting"
	// ResultError: the attempt failed, and Berth tries the pod again.
	ResultError DecisionResult = "Error"
	// ResultQuarantined: plugins panicked or hung at the pod several times, so that
	// Berth does not try it for a while.
	ResultQuarantined DecisionResult = "Quarantined"
)

// SchedulingDecisionStatus is the decision about one pod. Its size grows with the
// number of plugins and reasons, not with the number of nodes, and it names no other
// pod than those of the pod's group.
type SchedulingDecisionStatus struct {
	// result is how the last scheduling attempt ended, or why there was none.
	// +required
	Result DecisionResult `json:"result"`

	// profile is the running profile that made the decision.
	// +required
	Profile DecidedBy `json:"profile"`

	// message is the message of the pod's condition PodScheduled: why the pod is
	// unschedulable, or the error. Where the SchedulingDecision of another pod of the
	// group explains why it waits, the message names that.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// blockedBy lists the plugins that reject the pod, each with the number of nodes,
	// or names the plugin that gates the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BlockedBy string `json:"blockedBy,omitempty"`

	// group is the group that the pod is scheduled with; absent for a pod on its own.
	// +optional
	Group *DecisionGroup `json:"group,omitempty"`

	// nodes counts the nodes of the last attempt. It is absent when no attempt reached
	// the nodes. With spec.decisions.detail Reasons it is also absent when some nodes
	// are feasible.
	// +optional
	Nodes *DecisionNodes `json:"nodes,omitempty"`

	// rejections are the reasons why nodes are not feasible, by plugin, the reason of
	// most nodes first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Rejections []Rejection `json:"rejections,omitempty"`

	// closestNodes are the nodes on which the pod lacks least, each with all that is
	// missing there.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	ClosestNodes []ClosestNode `json:"closestNodes,omitempty"`

	// deviceRequests are the pod's requests for devices that are not allocated yet, where
	// the plugin DynamicResources rejects the pod: how many devices each of them finds.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	DeviceRequests []DeviceRequestCounts `json:"deviceRequests,omitempty"`

	// queue is where the pod waits.
	// +optional
	Queue *DecisionQueue `json:"queue,omitempty"`

	// requeueEvents are the cluster events that may make the pod schedulable: the
	// events that the plugins which rejected the pod have registered.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	RequeueEvents []RequeueEvents `json:"requeueEvents,omitempty"`

	// preemption is the result of the last search for victims.
	// +optional
	Preemption *PreemptionResult `json:"preemption,omitempty"`

	// lastChange is the time since which the fields above have their values.
	// +required
	LastChange metav1.Time `json:"lastChange"`
}

// DecidedBy identifies the running generation of a profile that made a decision.
type DecidedBy struct {
	// name is the name of the SchedulingProfile.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// generation is the metadata.generation of the profile that ran.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Generation int64 `json:"generation,omitempty"`
	// hash is the hash of what ran, as in status.programmed of the profile.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
}

// DecisionNodes counts the nodes of a scheduling attempt.
type DecisionNodes struct {
	// total is how many nodes the cluster has.
	// +kubebuilder:validation:Minimum=0
	Total int32 `json:"total"`
	// evaluated is how many of them the Filter plugins evaluated.
	// +kubebuilder:validation:Minimum=0
	Evaluated int32 `json:"evaluated"`
	// feasible is how many of the evaluated nodes are feasible for the pod.
	// +kubebuilder:validation:Minimum=0
	Feasible int32 `json:"feasible"`
	// summary is feasible/total.
	// +kubebuilder:validation:MaxLength=64
	Summary string `json:"summary"`
}

// Rejection is one reason why nodes are not feasible, and how many nodes it applies to.
type Rejection struct {
	// plugin is the plugin that rejected the pod; empty when no plugin did.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`
	// code is the code of the plugin's status: Unschedulable,
	// UnschedulableAndUnresolvable or Pending.
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`
	// reason is the plugin's reason.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`
	// nodes is how many nodes the reason applies to.
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes"`
	// exampleNode is one of these nodes, where spec.decisions.detail of the profile is
	// Nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ExampleNode string `json:"exampleNode,omitempty"`
}

// ClosestNode is a node on which the pod lacks little.
type ClosestNode struct {
	// node is the node's name, where spec.decisions.detail of the profile is Nodes.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`
	// missing is all that makes the node infeasible for the pod.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Missing []Missing `json:"missing"`
}

// Missing is one reason why a node is not feasible for a pod: an amount of a resource
// that is not free, devices that are not free, or a plugin's reason.
type Missing struct {
	// resource is the name of the resource; empty when the reason is not about an
	// amount.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource,omitempty"`
	// deviceRequest is the request that finds too few devices on the node, as
	// claim/request: requested and free are numbers of devices then.
	// +optional
	// +kubebuilder:validation:MaxLength=571
	DeviceRequest string `json:"deviceRequest,omitempty"`
	// requested is the amount of the resource that the pod requests.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Requested string `json:"requested,omitempty"`
	// free is the amount of the resource that is free on the node.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Free string `json:"free,omitempty"`
	// plugin is the plugin that rejects the node, where the reason is not about an
	// amount.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin,omitempty"`
	// reason is the plugin's reason.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// DeviceRequestCounts says how many devices a request of a ResourceClaim, or one
// alternative of a request, finds in the ResourceSlices of the cluster.
type DeviceRequestCounts struct {
	// claim is the name of the claim in the pod's spec, or of the extended resource that a
	// DeviceClass backs.
	// +kubebuilder:validation:MaxLength=317
	Claim string `json:"claim"`
	// request is the name of the request; with an alternative, request/alternative.
	// +kubebuilder:validation:MaxLength=253
	Request string `json:"request"`
	// deviceClassName is the DeviceClass of the request.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	DeviceClassName string `json:"deviceClassName,omitempty"`
	// count is how many devices are requested; absent for all.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Count int32 `json:"count,omitempty"`
	// published is how many devices there are.
	// +kubebuilder:validation:Minimum=0
	Published int32 `json:"published"`
	// selectors are those of the class, then those of the request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Selectors []DeviceSelectorCount `json:"selectors,omitempty"`
	// free is how many of the devices that match all selectors can be allocated: no claim
	// holds them, their taints are tolerated, and they have enough capacity.
	// +kubebuilder:validation:Minimum=0
	Free int32 `json:"free"`
}

// DeviceSelectorSource is what has a selector of devices.
//
// +kubebuilder:validation:Enum=Class;Request
type DeviceSelectorSource string

// The sources of selectors.
const (
	// DeviceSelectorOfClass: the DeviceClass has the selector.
	DeviceSelectorOfClass DeviceSelectorSource = "Class"
	// DeviceSelectorOfRequest: the request of the claim has the selector.
	DeviceSelectorOfRequest DeviceSelectorSource = "Request"
)

// DeviceSelectorCount says how many devices match a selector.
type DeviceSelectorCount struct {
	// source is what has the selector.
	Source DeviceSelectorSource `json:"source"`
	// expression is the CEL expression.
	// +kubebuilder:validation:MaxLength=1024
	Expression string `json:"expression"`
	// matching is how many devices match this selector and those before it.
	// +kubebuilder:validation:Minimum=0
	Matching int32 `json:"matching"`
}

// DecisionQueue is where a pod waits.
type DecisionQueue struct {
	// where is the part of the scheduling queue that holds the pod.
	// +kubebuilder:validation:Enum=Active;Backoff;Unschedulable;Gated;Held;InFlight
	Where string `json:"where"`
	// since is the time at which the pod was moved there.
	Since metav1.Time `json:"since"`
	// gate is the PreEnqueue plugin that gates the pod.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Gate string `json:"gate,omitempty"`
}

// RequeueEvents are the cluster events that one plugin registered to have pods
// requeued.
type RequeueEvents struct {
	// plugin is the plugin's name.
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin"`
	// events are the events, as resource/action.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Events []string `json:"events"`
}

// PreemptionOutcome is how the search for victims ended.
//
// +kubebuilder:validation:Enum=NoCandidates;NotEligible;VictimsChosen;UnderWay;Failed
type PreemptionOutcome string

// The outcomes of a preemption.
const (
	// PreemptionNoCandidates: no victims would make room for the pod.
	PreemptionNoCandidates PreemptionOutcome = "NoCandidates"
	// PreemptionNotEligible: the pod may not preempt other pods now.
	PreemptionNotEligible PreemptionOutcome = "NotEligible"
	// PreemptionVictimsChosen: victims were chosen, and their eviction begins.
	PreemptionVictimsChosen PreemptionOutcome = "VictimsChosen"
	// PreemptionUnderWay: victims of an earlier attempt are still terminating.
	PreemptionUnderWay PreemptionOutcome = "UnderWay"
	// PreemptionFailed: the search for victims failed with an error.
	PreemptionFailed PreemptionOutcome = "Failed"
)

// PreemptionResult is the result of a search for victims. It counts the victims and
// never names them, since they may be in other namespaces.
type PreemptionResult struct {
	// candidates is on how many nodes preemption would make room for the pod.
	// +kubebuilder:validation:Minimum=0
	Candidates int32 `json:"candidates"`
	// victims is how many pods are evicted: from the chosen node, or for a group, from
	// as many nodes as the field nodes says.
	// +kubebuilder:validation:Minimum=0
	Victims int32 `json:"victims"`
	// nodes is on how many nodes the victims of a group are; absent for a pod on its
	// own, whose victims are on one node.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes int32 `json:"nodes,omitempty"`
	// outcome is how the search ended.
	Outcome PreemptionOutcome `json:"outcome"`
}
