package noderesources

import (
	"fmt"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berthdev/berth/scheduler/framework"
)

// DefaultFit sets the strategy LeastAllocated, the resources cpu and memory, and a
// weight of 1 where they are unset.
func DefaultFit(args *configv1.NodeResourcesFitArgs) {
	if args.ScoringStrategy == nil {
		args.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	defaultResources(&args.ScoringStrategy.Resources)
}

// defaultResources replaces an empty list by cpu and memory, and an unset weight by 1.
func defaultResources(specs *[]configv1.ResourceSpec) {
	if len(*specs) == 0 {
		*specs = []configv1.ResourceSpec{{Name: "cpu"}, {Name: "memory"}}
	}
	for i := range *specs {
		if (*specs)[i].Weight == 0 {
			(*specs)[i].Weight = 1
		}
	}
}

// ValidateFit returns the invalid fields of defaulted args.
func ValidateFit(args *configv1.NodeResourcesFitArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range args.IgnoredResources {
		errs = append(errs, metav1validation.ValidateLabelName(name, path.Child("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		at := path.Child("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(at, group, "must not contain '/'"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(group, at)...)
	}
	at := path.Child("scoringStrategy")
	if args.ScoringStrategy == nil {
		return append(errs, field.Required(at, "a scoring strategy must be specified"))
	}
	return append(errs, validateStrategy(args.ScoringStrategy, at)...)
}

func validateStrategy(strategy *configv1.ScoringStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	supported := []configv1.ScoringStrategyType{
		configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio,
	}
	shape := strategy.RequestedToCapacityRatio
	shapePath := path.Child("requestedToCapacityRatio")
	switch strategy.Type {
	case configv1.RequestedToCapacityRatio:
		if shape == nil {
			errs = append(errs, field.Required(shapePath, "must be specified when type is RequestedToCapacityRatio"))
		} else {
			errs = append(errs, framework.ValidateShape(shape.Shape, shapePath.Child("shape"))...)
		}
	case configv1.LeastAllocated, configv1.MostAllocated:
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), strategy.Type, supported))
	}
	if shape != nil && strategy.Type != configv1.RequestedToCapacityRatio {
		errs = append(errs, field.Forbidden(shapePath, "may only be set if type is RequestedToCapacityRatio"))
	}
	for i, resource := range strategy.Resources {
		if resource.Weight <= 0 || resource.Weight > 100 {
			errs = append(errs, field.Invalid(path.Child("resources").Index(i).Child("weight"), resource.Weight,
				fmt.Sprintf("weight of %s must be between 1 and 100", resource.Name)))
		}
	}
	return errs
}
