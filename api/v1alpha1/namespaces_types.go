package v1alpha1

// NamespacesFrom says how namespaces are chosen.
//
// +kubebuilder:validation:Enum=All;Selector
type NamespacesFrom string

const (
	// NamespacesAll takes every namespace.
	NamespacesAll NamespacesFrom = "All"
	// NamespacesSelector takes those whose labels a selector matches.
	NamespacesSelector NamespacesFrom = "Selector"
)

// AllowedNamespaces says which namespaces' pods may use a profile.
//
// +kubebuilder:validation:XValidation:rule="(has(self.from) && self.from == 'Selector') == has(self.selector)",message="`selector` must be set where `from` is Selector, and only there"
type AllowedNamespaces struct {
	// from says whether all namespaces are allowed (All) or those that the
	// selector matches (Selector).
	// +optional
	// +kubebuilder:default=All
	From NamespacesFrom `json:"from,omitempty"`

	// selector matches the labels of namespaces. An empty one matches all.
	// +optional
	Selector *NamespaceSelector `json:"selector,omitempty"`
}

// NamespaceSelector is a label selector: all that it asks for must hold.
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

// NamespaceOperator says how a label relates to values.
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

	// operator says how the label relates to the values.
	// +required
	Operator NamespaceOperator `json:"operator"`

	// values are those of In and NotIn; the others take none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	Values []string `json:"values,omitempty"`
}
