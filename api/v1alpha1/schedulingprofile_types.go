package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulingProfile says how one set of pods is scheduled. Its name is the
// spec.schedulerName of those pods. An empty spec is kube-scheduler's default
// profile. A change takes effect between two pods, without a restart.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=sprof,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=".spec.state"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="`metadata.name` must be at most 63 characters: it is the spec.schedulerName of pods, and events refuse a longer reporter"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="`metadata.name` must be a DNS subdomain: lower-case letters, digits, '-' and '.', with a letter or digit at each end"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".spec.state",description="Active or Paused"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the profile serves its pods as written"
// +kubebuilder:printcolumn:name="Gen",type=integer,JSONPath=".metadata.generation",description="The generation as written"
// +kubebuilder:printcolumn:name="Runs",type=integer,JSONPath=".status.programmed.generation",description="The generation that runs"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=".status.queue.pending",description="Pods that wait"
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=".status.totals.bound",description="Pods bound since the leader started"
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=".status.lastDecisionTime",description="Since the newest decision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp",description="Since the profile was created"
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=".status.programmed.hash",priority=1,description="The hash of what runs"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason",priority=1,description="Why the profile is or is not ready"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].message",priority=1,description="What runs, and every error"
type SchedulingProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the profile as wanted. Left out, it is kube-scheduler's default.
	// +optional
	// +kubebuilder:default={}
	Spec SchedulingProfileSpec `json:"spec,omitempty"`

	// status is what Berth says about the profile.
	// +optional
	Status SchedulingProfileStatus `json:"status,omitempty"`
}

// SchedulingProfileList is a list of SchedulingProfiles.
//
// +kubebuilder:object:root=true
type SchedulingProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SchedulingProfile `json:"items"`
}

// ProfileState says whether a profile schedules.
//
// +kubebuilder:validation:Enum=Active;Paused
type ProfileState string

const (
	// StateActive schedules the profile's pods.
	StateActive ProfileState = "Active"
	// StatePaused lets the profile's pods wait, and tells them so.
	StatePaused ProfileState = "Paused"
)

// ProfileBase says which plugins a profile starts from.
//
// +kubebuilder:validation:Enum=Default;None
type ProfileBase string

const (
	// BaseDefault starts from kube-scheduler's default plugins.
	BaseDefault ProfileBase = "Default"
	// BaseNone starts from nothing, as "*" in plugins.multiPoint.disabled.
	BaseNone ProfileBase = "None"
)

// Activation says when a change of a profile runs.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type Activation string

const (
	// ActivationAutomatic runs a change as soon as it can be run.
	ActivationAutomatic Activation = "Automatic"
	// ActivationManual runs a change once its hash is approved.
	ActivationManual Activation = "Manual"
)

// SchedulingProfileSpec is the profile as wanted.
type SchedulingProfileSpec struct {
	// state says whether the profile's pods are scheduled (Active) or wait and
	// are told so (Paused).
	// +optional
	// +kubebuilder:default=Active
	State ProfileState `json:"state,omitempty"`

	// base says which plugins the profile starts from: kube-scheduler's default
	// plugins (Default) or none (None). With None, the profile must enable one
	// queueSort plugin and at least one bind plugin.
	// +optional
	// +kubebuilder:default=Default
	Base ProfileBase `json:"base,omitempty"`

	// plugins changes which plugins run, where, and with what weight, by the
	// merge rules of KubeSchedulerConfiguration v1: an extension point's own
	// entry beats multiPoint, which beats the default; enabled beats disabled;
	// "*" disables all; a replaced entry keeps its place.
	// +optional
	Plugins *Plugins `json:"plugins,omitempty"`

	// pluginConfig gives plugins their arguments, one entry a plugin. A plugin
	// without an entry gets kube-scheduler's defaults.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PluginConfig []PluginArguments `json:"pluginConfig,omitempty"`

	// percentageOfNodesToScore is the share of nodes, in percent, after which
	// the search for feasible nodes stops. 0 is kube-scheduler's adaptive rule.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore int32 `json:"percentageOfNodesToScore,omitempty"`

	// allowedNamespaces says from which namespaces pods may use the profile.
	// Those of others wait and are told so. Who is bound already stays.
	// +optional
	// +kubebuilder:default={}
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitempty"`

	// queue says how refused pods wait.
	// +optional
	// +kubebuilder:default={}
	Queue QueuePolicy `json:"queue,omitempty"`

	// extenders are HTTP servers that have a say in where the profile's pods go.
	// Those that may be ignored are asked after the others. The manager refuses
	// them unless it runs with --enable-extenders.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Extenders []Extender `json:"extenders,omitempty"`

	// exports says which other programs are told what the profile runs, and
	// where. It decides nothing, and is not in the hash.
	// +optional
	Exports Exports `json:"exports,omitzero"`

	// decisions says what is recorded of each decision.
	// +optional
	// +kubebuilder:default={}
	Decisions DecisionPolicy `json:"decisions,omitempty"`

	// activation says when a change runs: as soon as it can (Automatic), or once
	// the annotation berth.dev/approved-hash names its hash (Manual). What runs
	// keeps running meanwhile; the condition Programmed says which hash waits.
	// +optional
	// +kubebuilder:default=Automatic
	Activation Activation `json:"activation,omitempty"`
}

// PluginArguments are one plugin's arguments, written here or in a
// PluginConfig.
//
// +kubebuilder:validation:XValidation:rule="has(self.args) != has(self.configRef)",message="exactly one of `args` and `configRef` must be set"
type PluginArguments struct {
	// name is the plugin that the arguments are for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args are the arguments, in the shape of KubeSchedulerConfiguration v1, at
	// most 64 KiB of JSON. apiVersion and kind may be left out.
	// +optional
	// +structType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	Args *runtime.RawExtension `json:"args,omitempty"`

	// configRef names a PluginConfig that holds the arguments.
	// +optional
	ConfigRef *PluginConfigReference `json:"configRef,omitempty"`
}

// PluginConfigReference names a PluginConfig.
//
// +structType=atomic
type PluginConfigReference struct {
	// name is the PluginConfig's name. It may come to be later: the profile
	// heals when it does.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// QueuePolicy says how refused pods wait. All durations are in seconds.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxBackoffSeconds) || !has(self.initialBackoffSeconds) || self.maxBackoffSeconds >= self.initialBackoffSeconds",message="`maxBackoffSeconds` must be at least `initialBackoffSeconds`"
type QueuePolicy struct {
	// initialBackoffSeconds is how long a pod waits after its first refusal. It
	// doubles with each further one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	InitialBackoffSeconds *int32 `json:"initialBackoffSeconds,omitempty"`

	// maxBackoffSeconds is the longest such wait.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxBackoffSeconds *int32 `json:"maxBackoffSeconds,omitempty"`

	// flushAfterSeconds is how long a pod may stay unschedulable before it is
	// tried again although nothing happened that could help it. 0 is never.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	FlushAfterSeconds *int32 `json:"flushAfterSeconds,omitempty"`
}

// Switch turns a feature on or off.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type Switch string

const (
	// Enabled turns the feature on.
	Enabled Switch = "Enabled"
	// Disabled turns the feature off.
	Disabled Switch = "Disabled"
)

// Explain says for which pods there is a SchedulingDecision.
//
// +kubebuilder:validation:Enum=Refusals;All;None
type Explain string

const (
	// ExplainRefusals explains the pods that wait.
	ExplainRefusals Explain = "Refusals"
	// ExplainAll explains those that are bound, too.
	ExplainAll Explain = "All"
	// ExplainNone explains none.
	ExplainNone Explain = "None"
)

// Detail says how much a SchedulingDecision and the annotation tell of nodes.
//
// +kubebuilder:validation:Enum=Reasons;Nodes
type Detail string

const (
	// DetailReasons tells reasons and counts.
	DetailReasons Detail = "Reasons"
	// DetailNodes names nodes, their scores and their number, too.
	DetailNodes Detail = "Nodes"
)

// DecisionPolicy says what is recorded of each decision.
type DecisionPolicy struct {
	// annotate says whether a bound pod carries the annotation
	// berth.dev/decision: where it went, and why.
	// +optional
	// +kubebuilder:default=Enabled
	Annotate Switch `json:"annotate,omitempty"`

	// topScores is how many of the best nodes the annotation berth.dev/decision
	// names, where detail is Nodes. 0 names none.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	TopScores *int32 `json:"topScores,omitempty"`

	// explain says for which pods there is a SchedulingDecision: those that are
	// refused or held (Refusals), those that are bound, too (All), or for none
	// (None). To say what is missing on the nearest nodes, Filter plugins are
	// asked about a dozen nodes more at most, when the reasons are new.
	// +optional
	// +kubebuilder:default=Refusals
	Explain Explain `json:"explain,omitempty"`

	// detail says how much those who use a namespace may read about nodes. With
	// Nodes, SchedulingDecisions name nodes, and the annotation
	// berth.dev/decision says how many nodes were evaluated and feasible, and
	// which scored best. With Reasons, SchedulingDecisions count nodes and name
	// none, and the annotation names the pod's own node alone.
	// +optional
	// +kubebuilder:default=Reasons
	Detail Detail `json:"detail,omitempty"`

	// history is how many decisions status.recentDecisions holds. 0 holds none.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	History *int32 `json:"history,omitempty"`

	// publishSeconds is the least time between two writes of the counters and
	// the recent decisions to the status, in seconds.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PublishSeconds *int32 `json:"publishSeconds,omitempty"`
}
