package v1alpha1

// AllPlugins, in a disabled list, stands for every plugin that the profile does
// not enable itself.
const AllPlugins = "*"

// Plugins changes which plugins run at each extension point. The fields are
// those of KubeSchedulerConfiguration v1, pod groups' apart.
type Plugins struct {
	// multiPoint changes plugins at every extension point that they implement.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// preEnqueue decides whether a pod may enter the queue at all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// queueSort orders waiting pods. Exactly one plugin runs here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// preFilter looks at a pod once, before any node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// filter says whether a node can take a pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Filter PluginSet `json:"filter,omitzero"`

	// postFilter runs when no node can take a pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// preScore prepares scoring, once a pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreScore PluginSet `json:"preScore,omitzero"`

	// score ranks the nodes that can take a pod.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// reserve sets resources aside for a pod that was given a node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Reserve PluginSet `json:"reserve,omitzero"`

	// permit lets a pod go on, wait or stop before it is bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Permit PluginSet `json:"permit,omitzero"`

	// preBind does what must be done before a pod is bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreBind PluginSet `json:"preBind,omitzero"`

	// bind binds a pod to its node. At least one plugin runs here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Bind PluginSet `json:"bind,omitzero"`

	// postBind is told of bound pods.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PostBind PluginSet `json:"postBind,omitzero"`
}

// PluginSet changes the plugins of one extension point.
type PluginSet struct {
	// enabled plugins run here, in this order, in addition to the defaults. A
	// default that is listed keeps its place and takes the weight given here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Enabled []EnabledPlugin `json:"enabled,omitempty"`

	// disabled plugins do not run here, unless they are enabled as well. "*"
	// disables every plugin that is not enabled here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disabled []DisabledPlugin `json:"disabled,omitempty"`
}

// EnabledPlugin is a plugin that runs, and its weight.
type EnabledPlugin struct {
	// name is the plugin's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// weight multiplies the plugin's score. Left out, it is 1, even where the
	// default is more. Only score and multiPoint take weights.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight *int32 `json:"weight,omitempty"`
}

// DisabledPlugin is a plugin that does not run.
type DisabledPlugin struct {
	// name is the plugin's name, or "*" for all.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
