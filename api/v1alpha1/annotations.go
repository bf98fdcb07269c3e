package v1alpha1

// AnnotationDecision is the annotation that every Binding carries and the API
// server merges into the pod: why the pod went where it went, in JSON. The bind
// overwrites what the pod's author wrote under this name, so it can be trusted
// on bound pods only.
const AnnotationDecision = "berth.dev/decision"
