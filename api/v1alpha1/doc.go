// Package v1alpha1 holds the API types of the group berth.dev: SchedulingProfile,
// PluginConfig and SchedulingDecision, their conditions and reasons, the annotations
// and labels that Berth writes, and the defaults of their fields.
//
// A field exists only when it works. The API server rejects what bounds and CEL rules
// can express; a condition reports the rest.
//
// +groupName=berth.dev
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
package v1alpha1
