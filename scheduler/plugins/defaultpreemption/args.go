package defaultpreemption

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Default fills in: a tenth of the nodes, and at least a hundred.
// Source: k8s.io/kubernetes/pkg/scheduler/apis/config/v1.
func Default(args *configv1.DefaultPreemptionArgs) {
	percentage, absolute := int32(10), int32(100)
	if args.MinCandidateNodesPercentage == nil {
		args.MinCandidateNodesPercentage = &percentage
	}
	if args.MinCandidateNodesAbsolute == nil {
		args.MinCandidateNodesAbsolute = &absolute
	}
}

// Validate says what is wrong with defaulted args.
func Validate(args *configv1.DefaultPreemptionArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	percentagePath, absolutePath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
	if args.MinCandidateNodesPercentage == nil {
		errs = append(errs, field.Required(percentagePath, "a percentage of the nodes must be given"))
	} else if p := *args.MinCandidateNodesPercentage; p < 0 || p > 100 {
		errs = append(errs, field.Invalid(percentagePath, p, "must be between 0 and 100"))
	}
	if args.MinCandidateNodesAbsolute == nil {
		errs = append(errs, field.Required(absolutePath, "a number of nodes must be given"))
	} else if a := *args.MinCandidateNodesAbsolute; a < 0 {
		errs = append(errs, field.Invalid(absolutePath, a, "must be 0 or more"))
	}
	if len(errs) == 0 && *args.MinCandidateNodesPercentage == 0 && *args.MinCandidateNodesAbsolute == 0 {
		errs = append(errs, field.Invalid(percentagePath, 0, "must be above 0 where minCandidateNodesAbsolute is 0: no node would be looked at"))
	}
	return errs
}
