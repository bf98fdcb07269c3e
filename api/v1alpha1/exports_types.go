package v1alpha1

// Exports names the files for other programs that Berth keeps equal to what a profile
// runs.
type Exports struct {
	// autoscaler keeps the file that cluster-autoscaler reads with
	// --scheduler-config-file: a KubeSchedulerConfiguration with this one profile. The
	// condition Exported says whether it is written, and which settings of the profile
	// it cannot express.
	// +optional
	Autoscaler *AutoscalerExport `json:"autoscaler,omitempty"`
}

// AutoscalerExport names the ConfigMap for cluster-autoscaler.
type AutoscalerExport struct {
	// configMap is the name of a ConfigMap in Berth's namespace. Its key
	// scheduler-config.yaml holds the configuration of what runs. Berth creates the
	// ConfigMap, reverts edits, and deletes it when the profile does not name it any
	// more. Berth does not change a ConfigMap that it did not create.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="`configMap` must be a DNS subdomain: lower-case letters, digits, '-' and '.', with a letter or digit at each end"
	ConfigMap string `json:"configMap"`
}
