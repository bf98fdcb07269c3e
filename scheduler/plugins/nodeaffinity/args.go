package nodeaffinity

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Validate says which parts of addedAffinity do not parse.
func Validate(args *configv1.NodeAffinityArgs, path *field.Path) field.ErrorList {
	_, _, errs := parseAddedAffinity(args.AddedAffinity, path)
	return errs
}

// parseAdded returns the two halves of an added affinity, nil where it says
// nothing, and what does not parse.
func parseAddedAffinity(added *v1.NodeAffinity, path *field.Path) (
	enforced *nodeaffinity.NodeSelector, favoured *nodeaffinity.PreferredSchedulingTerms, errs field.ErrorList,
) {
	if added == nil {
		return nil, nil, nil
	}
	if selector := added.RequiredDuringSchedulingIgnoredDuringExecution; selector != nil {
		at := path.Child("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
		parsed, err := nodeaffinity.NewNodeSelector(selector, field.WithPath(at))
		enforced, errs = parsed, append(errs, fieldErrors(err, at)...)
	}
	if terms := added.PreferredDuringSchedulingIgnoredDuringExecution; len(terms) > 0 {
		at := path.Child("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
		parsed, err := nodeaffinity.NewPreferredSchedulingTerms(terms, field.WithPath(at))
		favoured, errs = parsed, append(errs, fieldErrors(err, at)...)
	}
	return enforced, favoured, errs
}

// listed spreads an aggregate of field errors; what is none is put at path.
func fieldErrors(err error, path *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	all := []error{err}
	var aggregate utilerrors.Aggregate
	if errors.As(err, &aggregate) {
		all = utilerrors.Flatten(aggregate).Errors()
	}
	var list field.ErrorList
	for _, one := range all {
		var fieldError *field.Error
		if !errors.As(one, &fieldError) {
			fieldError = field.Invalid(path, field.OmitValueType{}, one.Error())
		}
		list = append(list, fieldError)
	}
	return list
}
