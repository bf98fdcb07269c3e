package v1alpha1

// NamespacesFrom says how namespaces are selected.
//
// +kubebuilder:validation:Enum=All;Selector
type NamespacesFrom string

const (
	// NamespacesAll selects every namespace.
	NamespacesAll NamespacesFrom = "All"
	// NamespacesSelector selects the namespaces whose labels match a selector.
	NamespacesSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces says in which namespaces pods may use a profile.
//
// +kubebuilder:validation:XValidation:rule="(has(self.from) && self.from == 'Selector') == has(self.selector)",message="`selector` must be set where `from` is Selector, and only there"
type AllowedNamespaces struct {
	// from says whether pods of all namespaces may use the profile (All), or those of
	// the namespaces that the selector matches (Selector).
	// +optional
	// +kubebuilder:default=All
	From NamespacesFrom `json:"from,omitempty"`

	// selector matches namespaces by their labels. An empty selector matches all
	// namespaces.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`
}

// NamespaceSelector is a label selector for namespaces: all of its requirements must
// hold.
//
// +structType=atomic
type NamespaceSelector struct {
	// matchLabels are labels that a namespace must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]string `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on a namespace's labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []NamespaceRequirement `json:"matchExpressions,omitempty"`
}

// NamespaceOperator relates a label to a set of values.
//
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type NamespaceOperator string

// NamespaceRequirement is one requirement on a label.
type NamespaceRequirement struct {
	// key is the label's key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`

	// operator relates the label to the values.
	// +required
	Operator NamespaceOperator `json:"operator"`

	// values are the values for In and NotIn. It must be empty for Exists and
	// DoesNotExist.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}
