package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// SchedulingProfile says how one set of pods is scheduled: the pods whose
// spec.schedulerName is its name. An empty spec is kube-scheduler's default profile. A
// change takes effect between two scheduling attempts, without a restart.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=sprof,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=".spec.state"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="`metadata.name` must be at most 63 characters: it is the spec.schedulerName of pods, and events refuse a longer reporter"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="`metadata.name` must be a DNS subdomain: lower-case letters, digits, '-' and '.', with a letter or digit at each end"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=".spec.state",description="Active or Paused"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the profile schedules its pods as the spec says"
// +kubebuilder:printcolumn:name="Gen",type=integer,JSONPath=".metadata.generation",description="The generation of the spec"
// +kubebuilder:printcolumn:name="Runs",type=integer,JSONPath=".status.programmed.generation",description="The generation that runs"
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=".status.queue.pending",description="Pending pods"
// +kubebuilder:printcolumn:name="Bound",type=integer,JSONPath=".status.totals.bound",description="Pods bound since status.totals.since"
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=".status.lastDecisionTime",description="Time since the newest decision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp",description="Time since the profile was created"
// +kubebuilder:printcolumn:name="Hash",type=string,JSONPath=".status.programmed.hash",priority=1,description="The hash of what runs"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].reason",priority=1,description="The reason of the condition Ready"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=".status.conditions[?(@.type=='Ready')].message",priority=1,description="What runs, and every error of the spec"
type SchedulingProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired profile. The default is kube-scheduler's default profile.
	// +optional
	// +kubebuilder:default={}
	Spec SchedulingProfileSpec `json:"spec,omitempty"`

	// status is what Berth observed of the profile.
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

// ProfileState says whether a profile schedules its pods.
//
// +kubebuilder:validation:Enum=Active;Paused
type ProfileState string

const (
	// StateActive schedules the profile's pods.
	StateActive ProfileState = "Active"
	// StatePaused holds the profile's pods; their condition PodScheduled says so.
	StatePaused ProfileState = "Paused"
)

// ProfileBase says which plugins a profile starts from.
//
// +kubebuilder:validation:Enum=Default;None
type ProfileBase string

const (
	// BaseDefault starts from kube-scheduler's default plugins.
	BaseDefault ProfileBase = "Default"
	// BaseNone starts without plugins, as "*" in plugins.multiPoint.disabled does.
	BaseNone ProfileBase = "None"
)

// Activation says when a change of a profile runs.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type Activation string

const (
	// ActivationAutomatic runs a change as soon as it is valid, built and tried.
	ActivationAutomatic Activation = "Automatic"
	// ActivationManual runs a change once its hash is approved.
	ActivationManual Activation = "Manual"
)

// SchedulingProfileSpec is the desired profile.
type SchedulingProfileSpec struct {
	// state says whether the profile's pods are scheduled (Active) or held (Paused).
	// The condition PodScheduled of a held pod gives the reason.
	// +optional
	// +kubebuilder:default=Active
	State ProfileState `json:"state,omitempty"`

	// base says which plugins the profile starts from: kube-scheduler's default plugins
	// (Default) or none (None). With None, the profile must enable one queueSort plugin
	// and at least one bind plugin.
	// +optional
	// +kubebuilder:default=Default
	Base ProfileBase `json:"base,omitempty"`

	// plugins changes which plugins run, at which extension points, and with which
	// weights, by the merge rules of KubeSchedulerConfiguration v1: an entry of an
	// extension point takes precedence over multiPoint, which takes precedence over the
	// default; enabled takes precedence over disabled; "*" disables all; a replaced
	// entry keeps its place.
	// +optional
	Plugins *Plugins `json:"plugins,omitempty"`

	// pluginConfig holds the arguments of plugins, one entry per plugin. A plugin
	// without an entry gets kube-scheduler's defaults.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PluginConfig []PluginArguments `json:"pluginConfig,omitempty"`

	// percentageOfNodesToScore is how many feasible nodes, in percent of all nodes, end
	// the search for feasible nodes. 0 means kube-scheduler's adaptive percentage.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentageOfNodesToScore int32 `json:"percentageOfNodesToScore,omitempty"`

	// allowedNamespaces says in which namespaces pods may use the profile. Pods of
	// other namespaces are held, and their condition PodScheduled gives the reason.
	// Pods that are already bound stay.
	// +optional
	// +kubebuilder:default={}
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitempty"`

	// queue says how pods wait after an attempt that did not place them.
	// +optional
	// +kubebuilder:default={}
	Queue QueuePolicy `json:"queue,omitempty"`

	// extenders are HTTP servers that take part in the profile's decisions. Extenders
	// with failurePolicy Ignore are called after the others. Berth rejects profiles
	// with extenders unless the manager runs with --enable-extenders.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Extenders []Extender `json:"extenders,omitempty"`

	// exports names the files for other programs that Berth keeps equal to what the
	// profile runs. It changes no decision and is not part of the hash.
	// +optional
	Exports Exports `json:"exports,omitzero"`

	// decisions says what Berth records of each decision.
	// +optional
	// +kubebuilder:default={}
	Decisions DecisionPolicy `json:"decisions,omitempty"`

	// activation says when a change runs: as soon as it is valid, built and tried
	// (Automatic), or once the annotation berth.dev/approved-hash holds its hash
	// (Manual). Until then the earlier generation keeps running; the message of the
	// condition Programmed gives the hash to approve.
	// +optional
	// +kubebuilder:default=Automatic
	Activation Activation `json:"activation,omitempty"`
}

// PluginArguments are one plugin's arguments, inline or in a PluginConfig.
//
// +kubebuilder:validation:XValidation:rule="has(self.args) != has(self.configRef)",message="exactly one of `args` and `configRef` must be set"
type PluginArguments struct {
	// name is the name of the plugin that the arguments are for.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// args are the arguments, in the form of KubeSchedulerConfiguration v1, at most 64
	// KiB of JSON. apiVersion and kind may be left out.
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
	// name is the PluginConfig's name. The PluginConfig may be created later: Berth
	// then resolves the profile again.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// QueuePolicy says how pods wait after an attempt that did not place them. All
// durations are in seconds.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxBackoffSeconds) || !has(self.initialBackoffSeconds) || self.maxBackoffSeconds >= self.initialBackoffSeconds",message="`maxBackoffSeconds` must be at least `initialBackoffSeconds`"
type QueuePolicy struct {
	// initialBackoffSeconds is how long a pod waits after its first failed attempt. The
	// time doubles with each further one.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	InitialBackoffSeconds *int32 `json:"initialBackoffSeconds,omitempty"`

	// maxBackoffSeconds is the longest backoff.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxBackoffSeconds *int32 `json:"maxBackoffSeconds,omitempty"`

	// flushAfterSeconds is how long a pod may stay unschedulable before Berth tries it
	// again without a cluster event that may make it schedulable. 0 means never.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	FlushAfterSeconds *int32 `json:"flushAfterSeconds,omitempty"`
}

// Switch enables or disables a feature.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type Switch string

const (
	// Enabled enables the feature.
	Enabled Switch = "Enabled"
	// Disabled disables the feature.
	Disabled Switch = "Disabled"
)

// Explain says which pods get a SchedulingDecision.
//
// +kubebuilder:validation:Enum=Refusals;All;None
type Explain string

const (
	// ExplainRefusals explains pods that wait.
	ExplainRefusals Explain = "Refusals"
	// ExplainAll also explains bound pods.
	ExplainAll Explain = "All"
	// ExplainNone explains no pod.
	ExplainNone Explain = "None"
)

// Detail says how much SchedulingDecisions and the annotation berth.dev/decision say
// about nodes.
//
// +kubebuilder:validation:Enum=Reasons;Nodes
type Detail string

const (
	// DetailReasons gives reasons and counts.
	DetailReasons Detail = "Reasons"
	// DetailNodes also names nodes, with their scores and their number.
	DetailNodes Detail = "Nodes"
)

// DecisionPolicy says what Berth records of each decision.
type DecisionPolicy struct {
	// annotate says whether a bound pod gets the annotation berth.dev/decision, which
	// holds where the pod was bound and why.
	// +optional
	// +kubebuilder:default=Enabled
	Annotate Switch `json:"annotate,omitempty"`

	// topScores is how many of the nodes with the best scores the annotation
	// berth.dev/decision names, where detail is Nodes. 0 means none.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	TopScores *int32 `json:"topScores,omitempty"`

	// explain says which pods get a SchedulingDecision: those that are unschedulable or
	// held (Refusals), also those that are bound (All), or none (None). To find what is
	// missing on the closest nodes, Berth runs the Filter plugins on at most a dozen
	// further nodes when the reasons are new.
	// +optional
	// +kubebuilder:default=Refusals
	Explain Explain `json:"explain,omitempty"`

	// detail says how much users of a namespace may read about nodes. With Nodes,
	// SchedulingDecisions name nodes, and the annotation berth.dev/decision says how
	// many nodes were evaluated and feasible, and which scored best. With Reasons,
	// SchedulingDecisions count nodes and name none, and the annotation names only the
	// pod's own node.
	// +optional
	// +kubebuilder:default=Reasons
	Detail Detail `json:"detail,omitempty"`

	// history is how many decisions status.recentDecisions holds. 0 means none.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	History *int32 `json:"history,omitempty"`

	// publishSeconds is the least time between two writes of the counters and the
	// recent decisions to the status, in seconds.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	PublishSeconds *int32 `json:"publishSeconds,omitempty"`
}
