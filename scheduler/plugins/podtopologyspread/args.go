package podtopologyspread

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// systemDefaultConstraints are the constraints of the defaulting type System.
var systemDefaultConstraints = []v1.TopologySpreadConstraint{
	{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
}

// Default sets the defaulting type System where it is unset.
func Default(args *configv1.PodTopologySpreadArgs) {
	if args.DefaultingType == "" {
		args.DefaultingType = configv1.SystemDefaulting
	}
}

// Validate returns the invalid fields of defaulted args.
func Validate(args *configv1.PodTopologySpreadArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("defaultingType")
	switch args.DefaultingType {
	case configv1.ListDefaulting:
	case configv1.SystemDefaulting:
		if len(args.DefaultConstraints) > 0 {
			errs = append(errs, field.Invalid(at, args.DefaultingType, "must be List if defaultConstraints are set"))
		}
	default:
		errs = append(errs, field.NotSupported(at, args.DefaultingType,
			[]configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}))
	}
	list := path.Child("defaultConstraints")
	for i := range args.DefaultConstraints {
		errs = append(errs, validateConstraint(&args.DefaultConstraints[i], list.Index(i))...)
		errs = append(errs, validateUnique(args.DefaultConstraints[:i+1], list.Index(i))...)
	}
	return errs
}

func validateConstraint(c *v1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "must be greater than 0"))
	}
	if at := path.Child("topologyKey"); c.TopologyKey == "" {
		errs = append(errs, field.Required(at, "must be the key of a node label"))
	} else {
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at)...)
	}
	actions := []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}
	switch at := path.Child("whenUnsatisfiable"); c.WhenUnsatisfiable {
	case v1.DoNotSchedule, v1.ScheduleAnyway:
	case "":
		errs = append(errs, field.Required(at, fmt.Sprintf("must be one of %v", actions)))
	default:
		errs = append(errs, field.NotSupported(at, c.WhenUnsatisfiable, actions))
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "must not be set: it is deduced for each pod"))
	}
	return errs
}

// validateUnique returns an error if the last of constraints has the key and the action
// of another one.
func validateUnique(constraints []v1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	last := constraints[len(constraints)-1]
	for _, c := range constraints[:len(constraints)-1] {
		if c.TopologyKey == last.TopologyKey && c.WhenUnsatisfiable == last.WhenUnsatisfiable {
			return field.ErrorList{field.Duplicate(path, fmt.Sprintf("{%v, %v}", c.TopologyKey, c.WhenUnsatisfiable))}
		}
	}
	return nil
}
