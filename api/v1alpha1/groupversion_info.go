package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of every type in this package.
	GroupVersion = schema.GroupVersion{Group: "berth.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion by the name that generated code uses.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects what AddToScheme adds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds the types of this package to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&SchedulingProfile{}, &SchedulingProfileList{},
		&PluginConfig{}, &PluginConfigList{},
		&SchedulingDecision{}, &SchedulingDecisionList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
