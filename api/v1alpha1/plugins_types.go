package v1alpha1

// AllPlugins, in a disabled list, stands for every plugin that the profile does not
// enable itself.
const AllPlugins = "*"

// Plugins changes which plugins run at each extension point. The fields are those of
// KubeSchedulerConfiguration v1, without the extension points of pod groups.
type Plugins struct {
	// multiPoint changes plugins at every extension point that they implement.
	// +optional
	MultiPoint PluginSet `json:"multiPoint,omitzero"`

	// preEnqueue plugins decide whether a pod may enter the active queue.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreEnqueue PluginSet `json:"preEnqueue,omitzero"`

	// queueSort orders pending pods. Exactly one plugin runs here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	QueueSort PluginSet `json:"queueSort,omitzero"`

	// preFilter plugins examine a pod once, before any node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreFilter PluginSet `json:"preFilter,omitzero"`

	// filter plugins reject nodes that cannot run the pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Filter PluginSet `json:"filter,omitzero"`

	// postFilter plugins run when no node is feasible.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PostFilter PluginSet `json:"postFilter,omitzero"`

	// preScore plugins prepare scoring, once per pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreScore PluginSet `json:"preScore,omitzero"`

	// score plugins rank the feasible nodes.
	// +optional
	Score PluginSet `json:"score,omitzero"`

	// reserve plugins reserve resources for a pod on its chosen node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Reserve PluginSet `json:"reserve,omitzero"`

	// permit plugins approve, delay or deny the binding of a pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Permit PluginSet `json:"permit,omitzero"`

	// preBind plugins do the work that must precede the binding of a pod.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PreBind PluginSet `json:"preBind,omitzero"`

	// bind plugins bind a pod to its node. At least one plugin runs here.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	Bind PluginSet `json:"bind,omitzero"`

	// postBind plugins are informed after a pod is bound.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.enabled) || self.enabled.all(p, !has(p.weight))",message="`weight` may only be set in `score` and `multiPoint`"
	PostBind PluginSet `json:"postBind,omitzero"`
}

// PluginSet changes the plugins of one extension point.
type PluginSet struct {
	// enabled plugins run here, in this order, in addition to the defaults. A default
	// plugin that is listed keeps its place and takes the weight given here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Enabled []EnabledPlugin `json:"enabled,omitempty"`

	// disabled plugins do not run here, unless they are also enabled. "*" disables
	// every plugin that is not enabled here.
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

	// weight multiplies the plugin's score. The default is 1, also for plugins whose
	// default weight in kube-scheduler is larger. It may only be set in score and
	// multiPoint.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight *int32 `json:"weight,omitempty"`
}

// DisabledPlugin is a plugin that does not run.
type DisabledPlugin struct {
	// name is the plugin's name, or "*" for all plugins.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
