package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// PluginConfig holds one plugin's arguments for any number of profiles. Its condition
// Accepted says whether they are valid. Deleting a PluginConfig that is in use changes
// nothing that runs.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=plugcfg,categories=berth
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Plugin",type=string,JSONPath=".spec.plugin",description="The plugin that the arguments are for"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=".status.conditions[?(@.type=='Accepted')].status",description="Whether the arguments are valid"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=".status.conditions[?(@.type=='Programmed')].status",description="Whether every profile that references it runs this generation of it"
// +kubebuilder:printcolumn:name="Used-By",type=integer,JSONPath=".status.referenceCount",description="How many profiles reference it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=".metadata.creationTimestamp",description="Time since it was created"
type PluginConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the plugin and its arguments.
	// +required
	Spec PluginConfigSpec `json:"spec"`

	// status is what Berth observed of the PluginConfig.
	// +optional
	Status PluginConfigStatus `json:"status,omitempty"`
}

// PluginConfigList is a list of PluginConfigs.
//
// +kubebuilder:object:root=true
type PluginConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PluginConfig `json:"items"`
}

// PluginConfigSpec is a plugin and its arguments.
type PluginConfigSpec struct {
	// plugin is the name of the plugin that the arguments are for. It cannot be
	// changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="`plugin` may not be changed: create another PluginConfig"
	Plugin string `json:"plugin"`

	// args are the arguments, in the form of KubeSchedulerConfiguration v1, at most 64
	// KiB of JSON. apiVersion and kind may be left out.
	// +required
	// +structType=atomic
	// +kubebuilder:pruning:PreserveUnknownFields
	Args runtime.RawExtension `json:"args"`
}

// MaxReferencedBy is how many profiles status.referencedBy lists at most;
// status.referenceCount counts all.
const MaxReferencedBy = 100

// PluginConfigStatus is what Berth observed of a PluginConfig.
type PluginConfigStatus struct {
	// observedGeneration is the metadata.generation that the conditions are about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Accepted and Programmed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hash is the hash of the arguments, with the plugin's defaults applied.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`

	// referenceCount is how many profiles reference this PluginConfig.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReferenceCount int64 `json:"referenceCount"`

	// referencedBy lists the profiles that reference this PluginConfig, with the
	// generations in which they do, by name; at most 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	ReferencedBy []ObjectGeneration `json:"referencedBy,omitempty"`
}
