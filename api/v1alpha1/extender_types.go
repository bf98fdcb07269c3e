package v1alpha1

// Extender is an HTTP server that has a say in where pods go, in the wire format
// of kube-scheduler's extenders (k8s.io/kube-scheduler/extender/v1). The manager
// refuses profiles with extenders unless it runs with --enable-extenders.
//
// +kubebuilder:validation:XValidation:rule="has(self.verbs.prioritize) || !has(self.weight) || self.weight == 1",message="`weight` counts only with `verbs.prioritize`: leave it out"
type Extender struct {
	// name names the extender in reasons and metrics.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="`name` must be a DNS label: lower-case letters, digits and '-', with a letter or digit at each end"
	Name string `json:"name"`

	// url is where the extender is, such as https://gpu-extender.gpu.svc:8443/v1.
	// A verb's path follows it. It is https only, with a host, and a port and a
	// path if need be; the host may not be, or resolve to, a loopback, link-local,
	// multicast or unspecified address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https://([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?(/[-A-Za-z0-9._~/]*)?$')",message="`url` must be https://HOST[:PORT][/PATH], without a user, a query or a fragment"
	URL string `json:"url"`

	// verbs are what the extender is asked, each with its path below the url. It
	// is not asked what is left out.
	// +required
	Verbs ExtenderVerbs `json:"verbs"`

	// weight multiplies the scores that prioritize returns.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Weight *int32 `json:"weight,omitempty"`

	// timeoutSeconds is how long one request may take, in seconds: from the search
	// for the address to the end of the answer. The scheduler waits for it.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// tls says how the extender proves who it is, and how Berth does.
	// +required
	TLS ExtenderTLS `json:"tls"`

	// nodeCacheCapable says that the extender knows the nodes itself: it is told
	// their names only, and answers with names.
	// +optional
	// +kubebuilder:default=false
	NodeCacheCapable bool `json:"nodeCacheCapable,omitempty"`

	// managedResources are extended resources. The extender is asked only about
	// pods that request or limit one of them; without any, about all pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	ManagedResources []ExtenderManagedResource `json:"managedResources,omitempty"`

	// failurePolicy says what becomes of a pod when filter, preempt or bind fails:
	// its attempt fails (Fail), or goes on as if the extender had not been there
	// (Ignore). Extenders that may be ignored are asked after the others. When
	// prioritize fails, its scores are left out under both.
	// +optional
	// +kubebuilder:default=Fail
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// FailurePolicy says what becomes of a pod when its extender fails.
//
// +kubebuilder:validation:Enum=Fail;Ignore
type FailurePolicy string

const (
	// FailurePolicyFail fails the pod's attempt.
	FailurePolicyFail FailurePolicy = "Fail"
	// FailurePolicyIgnore goes on without the extender.
	FailurePolicyIgnore FailurePolicy = "Ignore"
)

// ExtenderVerbs are what an extender is asked, each with its path below the url.
//
// +structType=atomic
// +kubebuilder:validation:XValidation:rule="has(self.filter) || has(self.prioritize) || has(self.preempt) || has(self.bind)",message="`verbs` must hold at least one of `filter`, `prioritize`, `preempt` and `bind`"
type ExtenderVerbs struct {
	// filter is asked which of the nodes that fit the pod may have it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Filter string `json:"filter,omitempty"`

	// prioritize is asked how good each node is, from 0 to 10.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Prioritize string `json:"prioritize,omitempty"`

	// preempt is asked which of the nodes may be cleared for the pod, and of
	// which victims. The manager needs --enable-extender-writes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Preempt string `json:"preempt,omitempty"`

	// bind is asked to bind the pod itself, in place of the profile's bind
	// plugins; the pod then carries no berth.dev/decision. At most one extender
	// of a profile may bind. The manager needs --enable-extender-writes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-A-Za-z0-9._~]+(/[-A-Za-z0-9._~]+)*$')",message="a verb must be a path of letters, digits, '-', '.', '_', '~' and '/', without a '/' at an end"
	Bind string `json:"bind,omitempty"`
}

// ExtenderTLS says how an extender proves who it is, and how Berth does.
type ExtenderTLS struct {
	// caBundle holds the certificates of the authorities that may vouch for the
	// extender, as PEM, at most 16 KiB of it. No other authority is trusted.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=21848
	CABundle []byte `json:"caBundle"`

	// serverName is the name that the extender's certificate must be for. Left
	// out, it is the url's host.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServerName string `json:"serverName,omitempty"`

	// clientCertificateRef names the Secret with which Berth proves who it is.
	// Left out, Berth shows no certificate.
	// +optional
	ClientCertificateRef *SecretReference `json:"clientCertificateRef,omitempty"`
}

// SecretReference names a Secret of type kubernetes.io/tls in Berth's namespace.
//
// +structType=atomic
type SecretReference struct {
	// name is the Secret's name. A change of it is followed without a change of
	// the profile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ExtenderManagedResource is an extended resource that an extender manages.
type ExtenderManagedResource struct {
	// name is the resource's, such as example.com/gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Name string `json:"name"`

	// ignoredByScheduler says that NodeResourcesFit does not look at the resource
	// in this profile, as if its argument ignoredResources named it.
	// +optional
	// +kubebuilder:default=false
	IgnoredByScheduler bool `json:"ignoredByScheduler,omitempty"`
}
