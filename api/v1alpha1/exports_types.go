package v1alpha1

// Exports says which other programs are told what a profile runs, and where.
type Exports struct {
	// autoscaler keeps what cluster-autoscaler reads with --scheduler-config-file:
	// a KubeSchedulerConfiguration of this one profile. The condition Exported
	// says whether it is there, and what of the profile it cannot say.
	// +optional
	Autoscaler *AutoscalerExport `json:"autoscaler,omitempty"`
}

// AutoscalerExport says where an autoscaler's configuration is kept.
type AutoscalerExport struct {
	// configMap is the name of a ConfigMap in Berth's own namespace, whose key
	// scheduler-config.yaml holds the configuration of what runs. Berth makes it,
	// puts back what is edited, and deletes it when it is not asked for any more;
	// one that is not Berth's it leaves alone.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="`configMap` must be a DNS subdomain: lower-case letters, digits, '-' and '.', with a letter or digit at each end"
	ConfigMap string `json:"configMap"`
}
