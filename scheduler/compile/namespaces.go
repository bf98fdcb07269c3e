package compile

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/berthdev/berth/api/v1alpha1"
)

// allowedNamespaces returns what matches the labels of namespaces whose pods
// may use the profile; nil where all may.
func allowedNamespaces(a v1alpha1.AllowedNamespaces, path *field.Path, found *fieldErrors) labels.Selector {
	checkEnum(a.From, path.Child("from"), found, v1alpha1.NamespacesAll, v1alpha1.NamespacesSelector)
	if chosen := a.From == v1alpha1.NamespacesSelector; chosen != (a.Selector != nil) {
		found.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("selector"), "must be set where from is Selector, and only there")
		return nil
	}
	if a.Selector == nil {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: a.Selector.MatchLabels}
	for _, r := range a.Selector.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values,
		})
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		found.addAccepted(v1alpha1.ReasonInvalidArguments, path.Child("selector"), "%v", err)
		return nil
	}
	return parsed
}
