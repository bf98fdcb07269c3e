package volumebinding

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/berth/scheduler/framework"
)

// Default fills in: ten minutes, and the more free storage the better.
func Default(args *configv1.VolumeBindingArgs) {
	if args.BindTimeoutSeconds == nil {
		args.BindTimeoutSeconds = ptr.To[int64](600)
	}
	if len(args.Shape) == 0 {
		args.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	}
}

// maxTimeout keeps seconds within what a time.Duration holds.
const maxTimeoutSeconds = 1 << 33

// Validate says what is wrong with defaulted args.
func Validate(args *configv1.VolumeBindingArgs, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch seconds := args.BindTimeoutSeconds; {
	case seconds == nil:
		errs = append(errs, field.Required(path.Child("bindTimeoutSeconds"), "must be a number of seconds"))
	case *seconds < 0:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *seconds, "must not be negative"))
	case *seconds > maxTimeoutSeconds:
		errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), *seconds, "must not be longer than 2^33 seconds"))
	}
	return append(errs, framework.ValidateShape(args.Shape, path.Child("shape"))...)
}
