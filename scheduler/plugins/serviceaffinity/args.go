package serviceaffinity

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ServiceAffinityArgs are the plugin's arguments. kube-scheduler has no such type
// any more: these are the fields of its last one.
type ServiceAffinityArgs struct {
	metav1.TypeMeta `json:",inline"`
	// AffinityLabels are labels of nodes: all pods of a Service go to nodes that
	// have the same values of them.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
	// AntiAffinityLabelsPreference are labels of nodes: the pods of a Service are
	// rather spread over their values.
	AntiAffinityLabelsPreference []string `json:"antiAffinityLabelsPreference,omitempty"`
}

// DeepCopyObject returns a copy that shares nothing.
func (a *ServiceAffinityArgs) DeepCopyObject() runtime.Object {
	return &ServiceAffinityArgs{
		TypeMeta:                     a.TypeMeta,
		AffinityLabels:               append([]string(nil), a.AffinityLabels...),
		AntiAffinityLabelsPreference: append([]string(nil), a.AntiAffinityLabelsPreference...),
	}
}

// Validate says which labels cannot be any.
func Validate(args *ServiceAffinityArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		name   string
		labels []string
	}{{"affinityLabels", args.AffinityLabels}, {"antiAffinityLabelsPreference", args.AntiAffinityLabelsPreference}} {
		for i, label := range list.labels {
			for _, wrong := range validation.IsQualifiedName(label) {
				errs = append(errs, field.Invalid(path.Child(list.name).Index(i), label, wrong))
			}
		}
	}
	return errs
}
