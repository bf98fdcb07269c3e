package v1alpha1

// Extender is an HTTP server that takes part in scheduling decisions, in the wire
// format of kube-scheduler's extenders (k8s.io/kube-scheduler/extender/v1). Berth
// rejects profiles with extenders unless the manager runs with --enable-extenders.
//
// +kubebuilder:validation:XValidation:rule="has(self.verbs.prioritize) || !has(self.weight) || self.weight == 1",message="`weight` counts only with `verbs.prioritize`: leave it out"
type Extender struct {
	// name identifies the extender in reasons and metrics.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="`name` must be a DNS label: lower-case letters, digits and '-', with a letter or digit at each end"
	Name string `json:"name"`

	// url is the base URL of the extender, such as
	// https://gpu-extender.gpu.svc:8443/v1; a verb's path is appended to it. It must be
	// https, with a host and optionally a port and a path. The host must not be, or
	// resolve to, a loopback, link-local, multicast or unspecified address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$')",message="`url` must be https://HOST[:PORT][/PATH], without a user, a query or a fragment"
	URL string `json:"url"`

	// verbs are the calls that the extender serves, each with its path below the url.
	// Berth does not make a call that is left out.
	// +required
	Verbs ExtenderVerbs `json:"verbs"`

	// weight multiplies the scores that prioritize returns.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight *int32 `json:"weight,omitempty"`

	// timeoutSeconds is how long one request may take, in seconds, from the DNS lookup
	// to the end of the response. The scheduling cycle waits for it.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// tls says how Berth verifies the extender, and which client certificate it
	// presents.
	// +required
	TLS ExtenderTLS `json:"tls"`

	// nodeCacheCapable says that the extender has a cache of nodes itself: requests
	// then hold node names only, and so do the extender's responses.
	// +optional
	// +kubebuilder:default=false
	NodeCacheCapable bool `json:"nodeCacheCapable,omitempty"`

	// managedResources are extended resources. Berth calls the extender only for pods
	// that request one of them, or have a limit for one; without any, for all pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ManagedResources []ExtenderManagedResource `json:"managedResources,omitempty"`

	// failurePolicy says what happens to a pod when filter, preempt or bind fails: the
	// attempt fails (Fail), or goes on as if the extender were not configured (Ignore).
	// Extenders with Ignore are called after the others. When prioritize fails, Berth
	// leaves its scores out under either policy.
	// +optional
	// +kubebuilder:default=Fail
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// FailurePolicy says what happens to a pod when a call to an extender fails.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

const (
	// FailurePolicyFail fails the pod's attempt.
	FailurePolicyFail FailurePolicy = "Fail"
	// FailurePolicyIgnore goes on without the extender.
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// ExtenderVerbs are the calls that an extender serves, each with its path below the
// url.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="has(self.filter) || has(self.prioritize) || has(self.preempt) || has(self.bind)",message="`verbs` must hold at least one of `filter`, `prioritize`, `preempt` and `bind`"
type ExtenderVerbs struct {
	// filter is the path of the call that returns which of the feasible nodes the pod
	// may use.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Filter string `json:"filter,omitempty"`

	// prioritize is the path of the call that scores each node from 0 to 10.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Prioritize string `json:"prioritize,omitempty"`

	// preempt is the path of the call that returns on which nodes pods may be
	// preempted, and which victims. The manager needs --enable-extender-writes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Preempt string `json:"preempt,omitempty"`

	// bind is the path of the call that binds the pod in place of the profile's bind
	// plugins; the pod then has no annotation berth.dev/decision. At most one extender
	// of a profile may bind. The manager needs --enable-extender-writes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Bind string `json:"bind,omitempty"`
}

// ExtenderTLS says how Berth verifies an extender, and which client certificate it
// presents.
type ExtenderTLS struct {
	// caBundle holds the PEM certificates of the certificate authorities that may sign
	// the extender's certificate, at most 16 KiB. Berth trusts no other authority.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=21848
	CABundle []byte `json:"caBundle"`

	// serverName is the name that the extender's certificate must be valid for. The
	// default is the url's host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// clientCertificateRef names the Secret with the client certificate that Berth
	// presents. Without it, Berth presents none.
	// +optional
	ClientCertificateRef *SecretReference `json:"clientCertificateRef,omitempty"`
}

// SecretReference names a Secret of type kubernetes.io/tls in Berth's namespace.
//
// +structType=atomic
type SecretReference struct {
	// name is the Secret's name. Berth uses a changed Secret without a change of the
	// profile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ExtenderManagedResource is an extended resource that an extender manages.
type ExtenderManagedResource struct {
	// name is the name of the resource, such as example.com/gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`

	// ignoredByScheduler makes NodeResourcesFit ignore the resource in this profile, as
	// if its argument ignoredResources named it.
	// +optional
	// +kubebuilder:default=false
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}
