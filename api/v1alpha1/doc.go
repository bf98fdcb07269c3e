// Package v1alpha1 holds the words that Berth's users write and read: the
// resources of the group berth.dev, their conditions and reasons, and what a
// field means when it is left out.
//
// A field is here only when it works. What the API server can refuse, by
// bounds and CEL, it refuses; the rest becomes a condition.
//
// +groupName=berth.dev
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
package v1alpha1
