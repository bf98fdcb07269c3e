package upstreamconfig

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// PolicyKind is the kind of the file for kube-scheduler's flag --policy-config-file,
// which ended with Kubernetes 1.22. Its apiVersion is v1.
const PolicyKind = "Policy"

// policy is the Policy of Kubernetes 1.15.
type policy struct {
	metav1.TypeMeta `json:",inline"`
	// Predicates and Priorities are the defaults where they are nil, and none where
	// they are empty.
	Predicates []predicate      `json:"predicates"`
	Priorities []priority       `json:"priorities"`
	Extenders  []policyExtender `json:"extenders"`
	// HardPodAffinitySymmetricWeight is 1 where it is 0 or not set.
	HardPodAffinitySymmetricWeight int32 `json:"hardPodAffinitySymmetricWeight"`
	AlwaysCheckAllPredicates       bool  `json:"alwaysCheckAllPredicates"`
}

type predicate struct {
	Name     string             `json:"name"`
	Argument *predicateArgument `json:"argument"`
}

type predicateArgument struct {
	ServiceAffinity *struct {
		Labels []string `json:"labels"`
	} `json:"serviceAffinity"`
	LabelsPresence *struct {
		Labels   []string `json:"labels"`
		Presence bool     `json:"presence"`
	} `json:"labelsPresence"`
}

type priority struct {
	Name     string            `json:"name"`
	Weight   int64             `json:"weight"`
	Argument *priorityArgument `json:"argument"`
}

type priorityArgument struct {
	ServiceAntiAffinity *struct {
		Label string `json:"label"`
	} `json:"serviceAntiAffinity"`
	LabelPreference *struct {
		Label    string `json:"label"`
		Presence bool   `json:"presence"`
	} `json:"labelPreference"`
	RequestedToCapacityRatioArguments *struct {
		Shape     []configv1.UtilizationShapePoint `json:"shape"`
		Resources []configv1.ResourceSpec          `json:"resources"`
	} `json:"requestedToCapacityRatioArguments"`
}

// policyExtender is an extender of a Policy. Its timeout is in nanoseconds.
type policyExtender struct {
	URLPrefix        string                             `json:"urlPrefix"`
	FilterVerb       string                             `json:"filterVerb"`
	PreemptVerb      string                             `json:"preemptVerb"`
	PrioritizeVerb   string                             `json:"prioritizeVerb"`
	Weight           int64                              `json:"weight"`
	BindVerb         string                             `json:"bindVerb"`
	EnableHTTPS      bool                               `json:"enableHttps"`
	TLSConfig        *configv1.ExtenderTLSConfig        `json:"tlsConfig"`
	HTTPTimeout      time.Duration                      `json:"httpTimeout"`
	NodeCacheCapable bool                               `json:"nodeCacheCapable"`
	ManagedResources []configv1.ExtenderManagedResource `json:"managedResources"`
	Ignorable        bool                               `json:"ignorable"`
}

func (o policyExtender) toV1() configv1.Extender {
	return configv1.Extender{
		URLPrefix: o.URLPrefix, FilterVerb: o.FilterVerb, PreemptVerb: o.PreemptVerb, PrioritizeVerb: o.PrioritizeVerb,
		Weight: o.Weight, BindVerb: o.BindVerb, EnableHTTPS: o.EnableHTTPS, TLSConfig: o.TLSConfig,
		HTTPTimeout: metav1.Duration{Duration: o.HTTPTimeout}, NodeCacheCapable: o.NodeCacheCapable,
		ManagedResources: o.ManagedResources, Ignorable: o.Ignorable,
	}
}
